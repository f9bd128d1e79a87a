//! Units of a folder in the guest.

use crate::Shared;

#[test]
fn units_of_a_folder_are_installed_and_rated() {
    let Some(mut guest) = Shared::boot() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, content: &str| {
        let file = folder.path().join(name);
        std::fs::create_dir_all(file.parent().expect("a folder")).expect("it is made");
        std::fs::write(file, content).expect("it is written");
    };
    write("test-units.sysusers.conf", "u test-units - \"A test\"\n");
    write("test-units.service", "[Service]\nType=exec\nUser=test-units\nExecStart=sleep 1000\n");
    guest.install_units(folder.path()).expect("they are installed");
    guest.sh("systemctl start test-units");
    let user = "ps -o user:20= -p \"$(systemctl show --property=MainPID --value test-units)\"";
    assert_eq!(guest.sh(user), "test-units\n");
    let open = guest.rate("test-units.service", 2.0).expect("it is rated");
    assert!(!open.passes && open.exposure > 8.0, "{open:?}");
    let confined = "[Service]\nCapabilityBoundingSet=\nPrivateNetwork=yes\nProtectSystem=strict\n\
                    SystemCallFilter=@system-service\nNoNewPrivileges=yes\n";
    write("test-units.service.d/confined.conf", confined);
    guest.install_units(folder.path()).expect("they are installed");
    let better = guest.rate("test-units.service", 8.0).expect("it is rated");
    assert!(better.passes && better.exposure < open.exposure - 1.0, "{better:?}");
    println!("exposure {} without a setting, {} with some", open.exposure, better.exposure);
    guest.sh("systemctl restart test-units");
    // The kernel confines it, so what systemd says is what it has done.
    let status = "cat \"/proc/$(systemctl show --property=MainPID --value test-units)/status\"";
    let status = guest.sh(status);
    for line in ["NoNewPrivs:\t1", "Seccomp:\t2", "CapBnd:\t0000000000000000"] {
        assert!(status.contains(line), "{line} is not in {status}");
    }
    guest.sh("systemctl stop test-units");
    let missing = guest.rate("no-such.service", 2.0).expect_err("there is none").to_string();
    assert!(missing.contains("no-such.service"), "{missing}");
    write("notes", "");
    let refused = guest.install_units(folder.path()).expect_err("no place for it").to_string();
    assert!(refused.contains("notes: cannot install"), "{refused}");
}
