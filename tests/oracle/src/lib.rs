//! Runs libccp behind a pipe: the results of its own C code for a program and a stream of
//! primitives.
//!
//! [`serve`] runs in a process of its own, because libccp trusts its input: a wrong count makes it
//! write beyond its tables, and some loops never end. [`Oracle`] is the other end of the pipe. One
//! request is one case: a fresh flow, then for each step the messages of an agent and an ACK. Time
//! is a parameter.
//!
//! The C code is compiled from the files of the `libccp` crate. The crate's Rust half is not
//! linked, because it exports C symbols such as `log`, which `f64::ln` would then call.

use std::io::{self, BufReader, BufWriter, ErrorKind, Read, Write};
use std::os::raw::{c_char, c_int};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// Report registers that are compared.
pub const REPORT: usize = 32;
/// Control registers that are compared.
pub const CONTROL: usize = 32;
/// Event flag, fall through, report, Micros, Cwnd, Rate.
pub const IMPLICIT: usize = 6;
pub const TEMPORARY: usize = 8;
pub const LOCAL: usize = 8;
/// All registers, in this order.
pub const REGISTERS: usize = REPORT + CONTROL + IMPLICIT + TEMPORARY + LOCAL;
/// libccp's primitives, in the order of the wire protocol.
pub const PRIMITIVES: usize = 15;

const IN_WORDS: usize = 3 + PRIMITIVES;
const OUT_WORDS: usize = 2 + REPORT + REGISTERS;
const WORD: usize = 8;
/// Capacity of a pipe.
const PIPE_BYTES: usize = 1 << 16;
/// libccp's result, followed by the words.
const ANSWER_WORDS: usize = 1 + OUT_WORDS;

// SAFETY: each is called by one thread alone, with buffers of the sizes in oracle.c; `message` is
// as unsafe as libccp's parser, which is why this is a process of its own.
unsafe extern "C" {
    fn remuda_oracle_begin() -> c_int;
    fn remuda_oracle_message(message: *mut c_char, bytes: c_int) -> c_int;
    fn remuda_oracle_step(input: *const u64, output: *mut u64) -> c_int;
}

/// One ACK, and the agent's messages before it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// Whole wire messages, in order. libccp's flow has number 1.
    pub messages: Vec<Vec<u8>>,
    pub now_us: u64,
    /// The window in force; libccp has 32 bits for it.
    pub cwnd_bytes: u64,
    /// The rate in force, in bytes per second.
    pub rate: u64,
    /// The primitives; libccp has 32 bits for most of them.
    pub primitives: [u64; PRIMITIVES],
}

/// The result of one step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// 0, or the error with which libccp left the program or refused a message.
    pub result: i32,
    /// The report that the step sent, if it sent one.
    pub report: Option<Vec<u64>>,
    pub registers: [u64; REGISTERS],
}

/// Whether libccp left the program: because of an overflow, an underflow or a division by 0.
pub fn is_abort(result: i32) -> bool {
    (-94..=-91).contains(&result)
}

fn read_u32(input: &mut impl Read) -> io::Result<u32> {
    let mut bytes = [0; 4];
    input.read_exact(&mut bytes)?;
    Ok(u32::from_le_bytes(bytes))
}

fn read_words(input: &mut impl Read, words: &mut [u64]) -> io::Result<()> {
    for word in words {
        let mut bytes = [0; WORD];
        input.read_exact(&mut bytes)?;
        *word = u64::from_le_bytes(bytes);
    }
    Ok(())
}

fn write_words(output: &mut impl Write, words: &[u64]) -> io::Result<()> {
    words.iter().try_for_each(|word| output.write_all(&word.to_le_bytes()))
}

fn length(bytes: usize) -> io::Result<[u8; 4]> {
    let length = u32::try_from(bytes).map_err(|_| io::Error::from(ErrorKind::InvalidInput))?;
    Ok(length.to_le_bytes())
}

fn read_step(input: &mut impl Read) -> io::Result<Step> {
    let mut step = Step::default();
    for _ in 0..read_u32(input)? {
        let mut message = vec![0; read_u32(input)? as usize];
        input.read_exact(&mut message)?;
        step.messages.push(message);
    }
    let mut words = [0; IN_WORDS];
    read_words(input, &mut words)?;
    [step.now_us, step.cwnd_bytes, step.rate] = [words[0], words[1], words[2]];
    step.primitives.copy_from_slice(&words[3..]);
    Ok(step)
}

fn write_step(output: &mut impl Write, step: &Step) -> io::Result<()> {
    output.write_all(&length(step.messages.len())?)?;
    for message in &step.messages {
        output.write_all(&length(message.len())?)?;
        output.write_all(message)?;
    }
    write_words(output, &[step.now_us, step.cwnd_bytes, step.rate])?;
    write_words(output, &step.primitives)
}

/// Runs one step; returns libccp's result and the words of oracle.c.
fn run(step: &mut Step) -> (i32, [u64; OUT_WORDS]) {
    let mut words = [0; OUT_WORDS];
    let mut refused = 0;
    for message in &mut step.messages {
        let bytes = c_int::try_from(message.len()).unwrap_or(c_int::MAX);
        // SAFETY: a buffer of that length, which libccp does not keep.
        let result = unsafe { remuda_oracle_message(message.as_mut_ptr().cast(), bytes) };
        if result != 0 {
            refused = result;
        }
    }
    let mut input = [0; IN_WORDS];
    input[..3].copy_from_slice(&[step.now_us, step.cwnd_bytes, step.rate]);
    input[3..].copy_from_slice(&step.primitives);
    // SAFETY: buffers of the sizes that oracle.c reads and writes.
    let result = unsafe { remuda_oracle_step(input.as_ptr(), words.as_mut_ptr()) };
    (if refused == 0 { result } else { refused }, words)
}

/// Answers cases until the input ends.
pub fn serve(input: impl Read, output: impl Write) -> io::Result<()> {
    let mut input = BufReader::with_capacity(PIPE_BYTES, input);
    let mut output = BufWriter::with_capacity(PIPE_BYTES, output);
    loop {
        let count = match read_u32(&mut input) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(()),
            other => other?,
        };
        let mut steps =
            (0..count).map(|_| read_step(&mut input)).collect::<io::Result<Vec<_>>>()?;
        // SAFETY: this thread alone uses libccp.
        let begun = unsafe { remuda_oracle_begin() };
        if begun != 0 {
            return Err(io::Error::other(format!("libccp does not start: {begun}")));
        }
        for step in &mut steps {
            let (result, words) = run(step);
            write_words(&mut output, &[i64::from(result) as u64])?;
            write_words(&mut output, &words)?;
        }
        output.flush()?;
    }
}

/// libccp in another process.
#[derive(Debug)]
pub struct Oracle {
    child: Child,
    input: Option<BufWriter<ChildStdin>>,
    output: BufReader<ChildStdout>,
}

impl Oracle {
    /// Starts `command`, which must call [`serve`] on its standard input and output.
    pub fn start(mut command: Command) -> io::Result<Self> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let input = child.stdin.take().map(|pipe| BufWriter::with_capacity(PIPE_BYTES, pipe));
        let output = child.stdout.take().map(|pipe| BufReader::with_capacity(PIPE_BYTES, pipe));
        let output = output.ok_or_else(|| io::Error::other("the oracle has no output"))?;
        Ok(Self { child, input, output })
    }

    /// Runs one case on a fresh flow. An error means that libccp's process has ended.
    pub fn run(&mut self, steps: &[Step]) -> io::Result<Vec<Answer>> {
        let input = self.input.as_mut().ok_or(ErrorKind::BrokenPipe)?;
        input.write_all(&length(steps.len())?)?;
        for step in steps {
            write_step(input, step)?;
        }
        input.flush()?;
        steps.iter().map(|_| self.answer()).collect()
    }

    fn answer(&mut self) -> io::Result<Answer> {
        let mut words = [0; ANSWER_WORDS];
        read_words(&mut self.output, &mut words)?;
        let [result, reports, fields] = [words[0], words[1], words[2]];
        let fields = usize::try_from(fields).unwrap_or(usize::MAX).min(REPORT);
        let mut registers = [0; REGISTERS];
        registers.copy_from_slice(&words[3 + REPORT..]);
        Ok(Answer {
            result: result as i64 as i32,
            report: (reports > 0).then(|| words[3..3 + fields].to_vec()),
            registers,
        })
    }
}

impl Drop for Oracle {
    fn drop(&mut self) {
        self.input = None; // the end of its input is its end
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `(def (Report (volatile acked 3))) (when true (:= Report.acked (+ Report.acked
    /// Ack.bytes_acked)) (report))` as the wire has it, with number 2.
    fn install() -> Vec<u8> {
        let mut message = vec![2, 0, 0, 0, 0, 0, 0, 0];
        for word in [2u32, 1, 4, 1, 1, 2, 2] {
            message.extend(word.to_le_bytes());
        }
        let records: [(u8, [(u8, u32); 3]); 4] = [
            (2, [(5, 0), (5, 0), (1, 3)]),
            (1, [(2, 0), (2, 0), (1, 1)]),
            (0, [(5, 0), (5, 0), (4, 0)]),
            (1, [(2, 2), (2, 2), (1, 1)]),
        ];
        for (code, operands) in records {
            message.push(code);
            for (kind, index) in operands {
                message.push(kind);
                message.extend(index.to_le_bytes());
            }
        }
        let length = u16::try_from(message.len()).unwrap();
        message[2..4].copy_from_slice(&length.to_le_bytes());
        message
    }

    #[test]
    fn libccp_runs_a_program_in_a_time_that_is_given() {
        let change = [4u8, 0, 16, 0, 1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0].to_vec();
        let mut steps = vec![Step::default(); 3];
        steps[0].messages = vec![install(), change];
        for (step, now_us) in steps.iter_mut().zip([5_000, 6_000, 9_000]) {
            step.now_us = now_us;
            step.cwnd_bytes = 2_896;
            step.primitives[0] = now_us;
        }
        let mut request = Vec::new();
        for _ in 0..2 {
            request.extend(length(steps.len()).unwrap());
            steps.iter().for_each(|step| write_step(&mut request, step).unwrap());
        }
        let mut answers = Vec::new();
        serve(&request[..], &mut answers).expect("libccp serves");
        assert_eq!(answers.len(), 2 * 3 * ANSWER_WORDS * WORD);
        let (first, second) = answers.split_at(answers.len() / 2);
        assert_eq!(first, second, "a case begins anew");
        let mut words = [0; 3 * ANSWER_WORDS];
        read_words(&mut &first[..], &mut words).unwrap();
        let step = &words[ANSWER_WORDS..2 * ANSWER_WORDS];
        assert_eq!(step[..4], [0, 1, 1, 3 + 6_000], "result, reports, fields, the field");
        let implicit = 3 + REPORT + REPORT + CONTROL;
        assert_eq!(step[implicit + 3], 1_000, "Micros since the program began");
        assert_eq!(step[implicit + 4], 2_896, "Cwnd");
    }
}
