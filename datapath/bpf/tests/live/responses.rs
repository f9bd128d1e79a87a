//! Responses of a server on a connection that stays open, compared with what the server did.

use super::*;
use remuda_wire::{Event, Response};

/// Bytes of each response. Between the parts of a response, the server waits.
const SIZES: [&[usize]; 5] = [&[3_000], &[200_000], &[1], &[70_000, 5_000], &[50_000]];
const PAUSE: Duration = Duration::from_millis(20);
const REQUEST: usize = 100;
/// A scheduler's delay on a loaded machine; the datapath itself is off by far less.
const SLACK: Duration = Duration::from_millis(15);

/// Asks for one response after another; returns how long each took.
fn exchange(client: &mut TcpStream, server: &mut TcpStream) -> Vec<Duration> {
    let mut took = Vec::new();
    for parts in SIZES {
        client.write_all(&[1; REQUEST]).unwrap();
        server.read_exact(&mut [0; REQUEST]).unwrap();
        let begun = monotonic_ns();
        for (index, part) in parts.iter().enumerate() {
            if index > 0 {
                thread::sleep(PAUSE);
            }
            let reader = client.try_clone().unwrap();
            let read = thread::spawn({
                let (mut reader, part) = (reader, *part);
                move || reader.read_exact(&mut vec![0; part]).unwrap()
            });
            server.write_all(&vec![2; *part]).unwrap();
            read.join().unwrap();
        }
        took.push(Duration::from_nanos(monotonic_ns() - begun));
    }
    took
}

#[test]
fn each_response_is_told_with_its_size_time_and_number() {
    let _one = exclusive();
    if skip() {
        return;
    }
    let name = format!("rsp{}", std::process::id());
    let settings = Settings {
        name: name.clone(),
        heartbeat_timeout: TIMEOUT,
        measures_responses: true,
        ..Settings::default()
    };
    let mut datapath = Datapath::load(settings, monotonic_ns()).expect("the datapath loads");
    datapath.attach().expect("the algorithm registers");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    server.set_nodelay(true).unwrap();
    choose(&server, &name);
    let exchanged = thread::spawn(move || {
        let took = exchange(&mut client, &mut server);
        drop(server);
        client.read_exact(&mut [0; 1]).expect_err("the end");
        took
    });
    let mut responses: Vec<Response> = Vec::new();
    let mut has_ended = false;
    for _ in 0..PATIENCE_TURNS {
        datapath.beat(monotonic_ns());
        datapath.drain(&mut |_, event| match event {
            Event::Response { response, .. } => responses.push(response),
            Event::Closed { .. } => has_ended = true,
            _ => {}
        });
        if has_ended {
            break;
        }
        thread::sleep(TURN);
    }
    let took = exchanged.join().unwrap();
    let sizes: Vec<u64> = responses.iter().map(|it| it.bytes).collect();
    let wanted: Vec<u64> = SIZES.iter().map(|it| it.iter().sum::<usize>() as u64).collect();
    assert_eq!(sizes, wanted, "{responses:?}");
    for ((response, took), number) in responses.iter().zip(took).zip(1..) {
        assert_eq!((response.number, response.lost_pkts), (number, 0));
        assert!(response.started_cwnd_pkts >= 10 && response.rwnd_bytes > 20_000, "{response:?}");
        let measured = Duration::from_micros(response.took_us);
        // The acknowledgement may be delayed; the client's own time ends before it.
        assert!(measured < took + 3 * SLACK && took < measured + SLACK, "{measured:?} {took:?}");
    }
    println!("responses: {responses:?}");
    assert!(responses[3].took_us >= PAUSE.as_micros() as u64, "one response in two parts");
}

#[test]
fn nobody_pays_for_responses_that_nobody_wants() {
    let _one = exclusive();
    if skip() {
        return;
    }
    let mut agent = Agent::start();
    agent.listen();
    let name = name_of(&agent);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    choose(&server, &name);
    exchange(&mut client, &mut server);
    drop(server);
    let mut told = 0;
    for _ in 0..20 {
        agent.datapath.beat(monotonic_ns());
        agent.datapath.drain(&mut |_, event| {
            told += u32::from(matches!(event, Event::Response { .. }));
        });
        thread::sleep(TURN);
    }
    assert_eq!(told, 0);
}
