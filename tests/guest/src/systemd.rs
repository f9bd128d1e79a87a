//! A small Debian with systemd in a virtual machine, for tests of services. It boots once and then
//! runs any number of commands, as root.
//!
//! The machine has two processors of QEMU's own (TCG), which take turns, and the host's clock. What
//! it does takes as long as the host lets it, so it is for tests of behaviour, not for figures. Its
//! disk is never written: each boot starts from the same state.

mod units;

pub use units::Rating;

use crate::console::{complaints, last_words};
use crate::image::Image;
use crate::machine::Keeper;
use crate::{Error, KERNEL};
use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

/// The root file system in the folder that `tools/systemd-guest.sh` makes.
const DISK: &str = "root.squashfs";
const INIT: &str = include_str!("systemd/init.sh");
const COMMANDS: &str = include_str!("systemd/commands.sh");
const COMMANDS_UNIT: &str = include_str!("systemd/commands.service");
/// A guest's changes to its disk take part of this.
const MEMORY_MIB: &str = "1024";
const PROCESSORS: &str = "2";
/// The console shows the kernel's warnings and worse, and what systemd starts. There is no udev, so
/// a login on the console would wait for its device. An emulated timer may be late where the host
/// is busy, so the kernel does not check it.
const PARAMETERS: &str = "console=ttyS0 loglevel=5 nokaslr no_timer_check panic=-1 panic_on_oops=1 \
                          systemd.getty_auto=no systemd.show_status=yes TERM=dumb";
/// Between two tries to reach QEMU's socket.
const TURN: Duration = Duration::from_millis(100);
/// Within this time QEMU listens on its socket.
const QEMU_MAX: Duration = Duration::from_secs(20);
/// How much longer than a command's limit the host waits for its answer: in that time the guest
/// ends the command and sends the answer.
const ANSWER_MAX: Duration = Duration::from_secs(60);
/// Within this time a file is written.
const PUT_MAX: Duration = Duration::from_secs(120);

/// A guest with systemd that can be booted.
#[derive(Clone, Debug)]
pub struct SystemdGuest {
    folder: PathBuf,
    image: Vec<u8>,
}

/// A booted guest. It ends when this value is dropped.
#[derive(Debug)]
pub struct Booted {
    channel: BufReader<UnixStream>,
    keeper: Keeper,
    /// The folder of the socket, of the console and of what QEMU writes.
    folder: TempDir,
}

/// The result of a command in a [`Booted`] guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// As a shell has it: 124 if the command ran longer than its limit.
    pub status: i32,
    pub output: String,
    /// The command's standard error.
    pub errors: String,
}

impl SystemdGuest {
    /// A guest of a folder that `tools/systemd-guest.sh` made.
    ///
    /// # Errors
    ///
    /// [`Error::NoSystemd`], which contains the fix.
    pub fn new(folder: &Path) -> Result<Self, Error> {
        for name in [KERNEL, DISK] {
            let file = folder.join(name);
            let named = || file.display().to_string();
            fs::metadata(&file).map_err(|source| Error::NoSystemd { file: named(), source })?;
        }
        let mut image = Image::with_init(folder, INIT)?;
        image.add("files/usr/lib/guest/commands", COMMANDS.as_bytes())?;
        let unit = "files/etc/systemd/system/guest-commands.service";
        image.add(unit, COMMANDS_UNIT.as_bytes())?;
        Ok(Self { folder: folder.to_owned(), image: image.into_bytes()? })
    }

    /// The same guest with a program of this host in `/usr/bin`, without debugging information. It
    /// loads the guest's libraries, so this host's must not be newer than Debian 13's.
    ///
    /// # Errors
    ///
    /// The program cannot be read.
    pub fn with_program(self, program: &Path) -> Result<Self, Error> {
        let mut more = Image::default();
        more.add_stripped(program, "--strip-all", "files/usr/bin")?;
        self.with(more)
    }

    /// The same guest with an executable file at this absolute path. A folder on the way must not
    /// be a link in the guest: `/usr/bin`, not `/bin`.
    ///
    /// # Errors
    ///
    /// The file has 4 GiB or more.
    pub fn with_file(self, at: &Path, content: &[u8]) -> Result<Self, Error> {
        let mut more = Image::default();
        more.add(Path::new("files").join(at.strip_prefix("/").unwrap_or(at)), content)?;
        self.with(more)
    }

    fn with(mut self, more: Image) -> Result<Self, Error> {
        self.image.extend(more.into_bytes()?);
        Ok(self)
    }

    /// Boots until systemd has started the basic services and the guest takes commands, which may
    /// take as long as `limit`.
    ///
    /// # Errors
    ///
    /// An error of QEMU; or the guest ended, or took longer, with the console's last lines.
    pub fn boot(&self, limit: Duration) -> Result<Booted, Error> {
        let folder = tempfile::tempdir().map_err(Error::doing("make a folder"))?;
        let image = folder.path().join("image");
        fs::write(&image, &self.image).map_err(Error::doing("write a guest's image"))?;
        let keeper = Keeper::start(self.arguments(folder.path()), &folder.path().join("said"))?;
        let channel = connect(&keeper, folder.path())?;
        let mut booted = Booted { channel: BufReader::new(channel), keeper, folder };
        booted.ask("true", b"", limit, limit)?;
        // The machine has read it.
        fs::remove_file(image).map_err(Error::doing("remove a guest's image"))?;
        Ok(booted)
    }

    fn arguments(&self, own: &Path) -> Vec<OsString> {
        let own = own.display();
        let disk = self.folder.join(DISK);
        let pairs = [
            // With a thread for each processor, one of them can run an `int3` that the kernel has
            // replaced meanwhile: an oops, in one of the first twelve boots.
            ("-accel", "tcg,thread=single".to_owned()),
            ("-smp", PROCESSORS.to_owned()),
            // See machine.rs for the page tables.
            ("-cpu", "max,-la57".to_owned()),
            ("-m", MEMORY_MIB.to_owned()),
            ("-kernel", self.folder.join(KERNEL).display().to_string()),
            ("-initrd", format!("{own}/image")),
            ("-append", PARAMETERS.to_owned()),
            ("-drive", format!("file={},format=raw,if=virtio,readonly=on", disk.display())),
            ("-device", "virtio-serial-pci".to_owned()),
            ("-chardev", format!("socket,id=commands,path={own}/commands,server=on,wait=off")),
            ("-device", "virtserialport,chardev=commands".to_owned()),
            ("-serial", format!("file:{own}/console")),
            ("-display", "none".to_owned()),
            ("-monitor", "none".to_owned()),
            ("-net", "none".to_owned()),
        ];
        let pairs = pairs.into_iter().flat_map(|(flag, value)| [flag.into(), value.into()]);
        pairs.chain([OsString::from("-no-reboot")]).collect()
    }
}

/// Connects to QEMU's socket, which QEMU makes as it starts.
fn connect(keeper: &Keeper, folder: &Path) -> Result<UnixStream, Error> {
    let tries = QEMU_MAX.as_millis() / TURN.as_millis();
    for _ in 0..tries {
        if let Ok(channel) = UnixStream::connect(folder.join("commands")) {
            return Ok(channel);
        }
        if keeper.wait(TURN)?.is_some() {
            break;
        }
    }
    Err(Error::Qemu { said: read(&folder.join("said"))?.trim().to_owned() })
}

fn expect_success(script: &str, answer: Answer) -> Result<String, Error> {
    let Answer { status, output, errors } = answer;
    if status != 0 {
        return Err(Error::Command { script: script.to_owned(), status, output, errors });
    }
    Ok(output)
}

fn read(file: &Path) -> Result<String, Error> {
    let bytes = fs::read(file).map_err(Error::doing(format!("read {}", file.display())))?;
    Ok(String::from_utf8_lossy(&bytes).replace('\r', ""))
}

impl Booted {
    /// Runs a script of bash, for `limit` at most. A process that the script leaves running goes
    /// on.
    ///
    /// # Errors
    ///
    /// The guest ended, or does not answer, with the console's last lines.
    pub fn run(&mut self, script: &str, limit: Duration) -> Result<Answer, Error> {
        self.run_with_input(script, b"", limit)
    }

    /// The same with a standard input.
    ///
    /// # Errors
    ///
    /// Those of [`Booted::run`].
    pub fn run_with_input(
        &mut self,
        script: &str,
        input: &[u8],
        limit: Duration,
    ) -> Result<Answer, Error> {
        self.ask(script, input, limit, limit + ANSWER_MAX)
    }

    /// Runs a script that must succeed; returns its output.
    ///
    /// # Errors
    ///
    /// Those of [`Booted::run`]; a status other than 0, with what the script printed.
    pub fn check(&mut self, script: &str, limit: Duration) -> Result<String, Error> {
        let answer = self.run(script, limit)?;
        expect_success(script, answer)
    }

    /// Writes a file of this mode, which chmod understands, and the folders above it.
    ///
    /// # Errors
    ///
    /// The guest ended, or cannot write there.
    pub fn put(&mut self, at: &Path, content: &[u8], mode: &str) -> Result<(), Error> {
        let at = crate::shell_words(&[at.display().to_string()]);
        let script = format!("install -D -m {mode} /dev/stdin {at}");
        let answer = self.run_with_input(&script, content, PUT_MAX)?;
        expect_success(&script, answer).map(drop)
    }

    /// Asks systemd to power the guest off, and waits until it has; returns the console.
    ///
    /// # Errors
    ///
    /// The guest still runs after `limit`, with the console's last lines.
    pub fn power_off(mut self, limit: Duration) -> Result<String, Error> {
        match self.run("systemctl poweroff --no-block", limit) {
            // The guest may be off before it has answered.
            Ok(_) | Err(Error::Died { .. }) => {}
            Err(error) => return Err(error),
        }
        let ended = self.keeper.wait(limit)?;
        let console = self.console()?;
        match ended {
            Some(status) if status.success() => Ok(console),
            Some(_) => Err(Error::Qemu { said: read(&self.folder.path().join("said"))? }),
            None => Err(Error::Late { limit, console: last_words(&console) }),
        }
    }

    /// The messages of the kernel and of systemd so far.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    pub fn console(&self) -> Result<String, Error> {
        read(&self.folder.path().join("console"))
    }

    /// The console's lines in which the kernel reports a fault. A test passes only if there are
    /// none.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    pub fn console_complaints(&self) -> Result<Vec<String>, Error> {
        Ok(complaints(&self.console()?).into_iter().map(str::to_owned).collect())
    }

    fn ask(
        &mut self,
        script: &str,
        input: &[u8],
        limit: Duration,
        wait: Duration,
    ) -> Result<Answer, Error> {
        let head = format!("{} {} {}\n", limit.as_secs().max(1), script.len(), input.len());
        let asked = [head.as_bytes(), script.as_bytes(), input].concat();
        match self.exchange(&asked, wait) {
            Ok(answer) => Ok(answer),
            Err(error) => {
                let console = last_words(&self.console()?);
                match error.kind() {
                    std::io::ErrorKind::WouldBlock => Err(Error::Late { limit: wait, console }),
                    std::io::ErrorKind::UnexpectedEof
                    | std::io::ErrorKind::BrokenPipe
                    | std::io::ErrorKind::ConnectionReset => Err(Error::Died { console }),
                    _ => Err(Error::doing("speak with a guest")(error)),
                }
            }
        }
    }

    fn exchange(&mut self, asked: &[u8], wait: Duration) -> std::io::Result<Answer> {
        let mut socket = self.channel.get_ref();
        socket.set_write_timeout(Some(wait))?;
        socket.set_read_timeout(Some(wait))?;
        socket.write_all(asked)?;
        let mut head = String::new();
        if self.channel.read_line(&mut head)? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        let numbers: Vec<i32> = head.split_whitespace().flat_map(str::parse).collect();
        let &[status, output, errors] = &numbers[..] else {
            return Err(std::io::Error::other(format!("no status and lengths: {head:?}")));
        };
        let mut text = |length: i32| {
            let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
            self.channel.read_exact(&mut bytes)?;
            Ok::<_, std::io::Error>(String::from_utf8_lossy(&bytes).into_owned())
        };
        Ok(Answer { status, output: text(output)?, errors: text(errors)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_root_file_system_the_fix_is_said() {
        let error = SystemdGuest::new(Path::new("/nowhere")).expect_err("there is none");
        assert!(error.to_string().contains("tools/systemd-guest.sh"), "{error}");
    }
}
