//! After an idle time an arm that is not paced begins with the restart window of RFC 5681 section
//! 4.1, not with one burst of its former window.

mod common;

use common::run;

/// An application that writes 2 MB every 3 s: the window that a part leaves behind is several times
/// what the queue takes at once.
fn resent_pkts(driver: &str) -> (u64, u64) {
    let outcome = run(&format!(
        "duration_s = 30\n\
         [links.down]\nrate_mbit_per_sec = 24\ndelay_ms = 30\n\
         queue = {{ kind = 'droptail', limit_packets = 60 }}\n\
         [links.up]\ndelay_ms = 30\n[[flows]]\ndriver = '{driver}'\n\
         app_rate_mbit_per_sec = 5.4\napp_write_bytes = 2000000\n"
    ));
    let flow = &outcome.flows[0];
    (flow.delivered_bytes / 1_000_000, flow.retransmitted_pkts)
}

#[test]
fn a_window_that_is_not_paced_restarts_after_an_idle_time() {
    for driver in ["reno", "cubic"] {
        let (delivered_mb, resent_pkts) = resent_pkts(driver);
        assert_eq!(delivered_mb, 20, "{driver}: all parts arrive");
        assert!(resent_pkts < 300, "{driver}: {resent_pkts} segments sent again");
    }
}
