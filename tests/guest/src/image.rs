//! The file system that a guest starts with: an initramfs of busybox, kernel modules and programs
//! with the shared libraries that they load.

use crate::Error;
use cpio::newc::{Builder, ModeFileType, trailer};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

const INIT: &str = include_str!("init.sh");
const LEAKS: &str = include_str!("leaks.sh");
/// The folders on which [`INIT`] mounts file systems, or to which it writes.
const FOLDERS: [&str; 6] = ["dev", "proc", "run", "sys", "tmp", "modules"];
const EXECUTABLE: u32 = 0o755;

/// An archive that is being written.
#[derive(Debug, Default)]
pub(crate) struct Image {
    bytes: Vec<u8>,
    have: BTreeSet<PathBuf>,
}

impl Image {
    /// An image with the busybox and the modules of a folder. It loads the modules that `/load`
    /// names and starts the command in `/command`.
    pub(crate) fn bootable(folder: &Path) -> Result<Self, Error> {
        let mut image = Self::with_init(folder, INIT)?;
        image.add("bin/leaks", LEAKS.as_bytes())?;
        Ok(image)
    }

    /// An image with the busybox and the modules of a folder, whose first process is this script.
    pub(crate) fn with_init(folder: &Path, init: &str) -> Result<Self, Error> {
        let mut image = Self::default();
        for folder in FOLDERS {
            image.add_folder(Path::new(folder))?;
        }
        image.add("init", init.as_bytes())?;
        image.add_file(&folder.join("busybox"), "bin/busybox")?;
        let modules = folder.join("modules");
        let here = Error::doing(format!("read {}", modules.display()));
        for entry in fs::read_dir(&modules).map_err(here)? {
            image.add_module(&entry.map_err(Error::doing("list modules"))?.path())?;
        }
        Ok(image)
    }

    /// Adds a program of this host to `/bin`, without debugging information, and its libraries.
    pub(crate) fn add_program(&mut self, program: &Path) -> Result<(), Error> {
        self.add_stripped(program, "--strip-all", "bin")?;
        let said = tool("ldd", Command::new("ldd").arg(program), program)?;
        if let Some(missing) = said.lines().find(|line| line.ends_with("not found")) {
            let (file, said) = (program.display().to_string(), missing.trim().to_owned());
            return Err(Error::Tool { tool: "ldd", file, said });
        }
        for library in libraries(&said) {
            self.add_file(Path::new(&library), &library)?;
        }
        Ok(())
    }

    /// Adds a kernel module of this host to `/modules`, without debugging information.
    pub(crate) fn add_module(&mut self, module: &Path) -> Result<(), Error> {
        // The kernel links a module by its symbols, so they stay.
        self.add_stripped(module, "--strip-debug", "modules")
    }

    /// Adds a file of this host to a folder, without what `strip` takes out with the flag `how`.
    pub(crate) fn add_stripped(&mut self, file: &Path, how: &str, into: &str) -> Result<(), Error> {
        let name = file.file_name().unwrap_or_default();
        let folder = tempfile::tempdir().map_err(Error::doing("make a folder"))?;
        let stripped = folder.path().join(name);
        tool("strip", Command::new("strip").args([how, "-o"]).arg(&stripped).arg(file), file)?;
        self.add_file(&stripped, Path::new(into).join(name))
    }

    /// Adds a file of this host.
    pub(crate) fn add_file(&mut self, path: &Path, at: impl AsRef<Path>) -> Result<(), Error> {
        let content = fs::read(path).map_err(Error::doing(format!("read {}", path.display())))?;
        self.add(at, &content)
    }

    /// Adds an executable file with this content. A path that was added before is skipped.
    pub(crate) fn add(&mut self, at: impl AsRef<Path>, content: &[u8]) -> Result<(), Error> {
        // Paths in an archive are relative to the root.
        let at = at.as_ref();
        let at = at.strip_prefix("/").unwrap_or(at);
        if let Some(folder) = at.parent() {
            self.add_folder(folder)?;
        }
        self.entry(at, ModeFileType::Regular, content)
    }

    /// The finished archive. The kernel unpacks several archives, one after the other.
    pub(crate) fn into_bytes(self) -> Result<Vec<u8>, Error> {
        trailer(self.bytes).map_err(Error::doing("end an archive"))
    }

    /// Adds a folder and the folders above it: the kernel creates only folders that have an entry.
    fn add_folder(&mut self, folder: &Path) -> Result<(), Error> {
        let mut path = PathBuf::new();
        for part in folder.components().filter(|part| matches!(part, Component::Normal(_))) {
            path.push(part);
            self.entry(&path, ModeFileType::Directory, b"")?;
        }
        Ok(())
    }

    fn entry(&mut self, at: &Path, kind: ModeFileType, content: &[u8]) -> Result<(), Error> {
        use std::io::Write;
        if !self.have.insert(at.to_owned()) {
            return Ok(());
        }
        let too_large = || std::io::Error::other("4 GiB at most");
        let size = u32::try_from(content.len()).map_err(|_| {
            Error::doing(format!("put {} into an archive", at.display()))(too_large())
        })?;
        let builder = Builder::new(&at.display().to_string()).mode(EXECUTABLE);
        let builder = builder.set_mode_file_type(kind).ino(self.have.len() as u32);
        let bytes = std::mem::take(&mut self.bytes);
        let mut writer = builder.write(bytes, size);
        let written = writer.write_all(content).and_then(|()| writer.finish());
        self.bytes = written.map_err(Error::doing("write an archive"))?;
        Ok(())
    }
}

/// Runs a tool and returns its output.
fn tool(tool: &'static str, command: &mut Command, file: &Path) -> Result<String, Error> {
    let output = command.output().map_err(Error::doing(format!("run {tool}")))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(Error::Tool { tool, file: file.display().to_string(), said });
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The paths in the output of `ldd`: `libz.so.1 => /lib/libz.so.1 (0x7f00)`, `/lib64/ld.so
/// (0x7f00)`.
fn libraries(said: &str) -> Vec<String> {
    let path = |line: &str| {
        let word = line.split_whitespace().find(|word| word.starts_with('/'))?;
        Some(word.to_owned())
    };
    said.lines().filter_map(path).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use cpio::NewcReader;

    #[test]
    fn the_paths_of_libraries_are_found() {
        let said = "\tlinux-vdso.so.1 (0x7ffd)\n\tlibz.so.1 => /lib/x/libz.so.1 (0x7f00)\n\
                    \t/lib64/ld-linux-x86-64.so.2 (0x7f01)\n";
        assert_eq!(libraries(said), ["/lib/x/libz.so.1", "/lib64/ld-linux-x86-64.so.2"]);
        assert_eq!(libraries("\tstatically linked\n"), Vec::<String>::new());
    }

    #[test]
    fn folders_stand_before_what_lies_in_them_and_nothing_twice() {
        let mut image = Image::default();
        image.add("lib/x/a", b"first").expect("it fits");
        image.add("lib/x/b", b"second").expect("it fits");
        image.add("lib/x/a", b"again").expect("it is there");
        let bytes = image.into_bytes().expect("it ends");
        let mut rest = &bytes[..];
        let mut names = Vec::new();
        loop {
            let reader = NewcReader::new(rest).expect("an entry");
            if reader.entry().is_trailer() {
                break;
            }
            names.push(reader.entry().name().to_owned());
            rest = reader.finish().expect("its end");
        }
        assert_eq!(names, ["lib", "lib/x", "lib/x/a", "lib/x/b"]);
    }
}
