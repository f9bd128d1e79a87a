//! Finds the file that a request names, and checks that it lies in the served folder.

use crate::transfer::Refusal;
use std::path::{Component, Path, PathBuf};

/// The longest request, in bytes.
pub const REQUEST_BYTES_MAX: usize = 4_096;

/// The file of a request `GET /PATH` in `folder`, which must be canonical. A link that leads out of
/// the folder, a device or a folder counts as no file.
pub fn file_of(request: &[u8], folder: &Path) -> Result<PathBuf, Refusal> {
    let line = std::str::from_utf8(request).map_err(|_| Refusal::Request)?;
    let line = line.trim_end_matches(['\r', '\n']);
    let path = line.strip_prefix("GET /").ok_or(Refusal::Request)?;
    let path = Path::new(path);
    if !path.components().all(|part| matches!(part, Component::Normal(_))) {
        return Err(Refusal::NoFile);
    }
    let file = folder.join(path).canonicalize().map_err(|_| Refusal::NoFile)?;
    if !file.starts_with(folder) || !file.is_file() {
        return Err(Refusal::NoFile);
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn only_files_in_the_folder_are_found() {
        let outer = tempfile::tempdir().expect("a folder");
        let folder = outer.path().join("served");
        fs::create_dir_all(folder.join("inner")).expect("folders");
        fs::write(outer.path().join("secret"), "x").expect("a file");
        fs::write(folder.join("inner/a b"), "x").expect("a file");
        symlink("../secret", folder.join("out")).expect("a link");
        symlink("inner/a b", folder.join("in")).expect("a link");
        let folder = folder.canonicalize().expect("it is there");
        let rows: [(&[u8], Result<&str, Refusal>); 12] = [
            (b"GET /inner/a b\r\n", Ok("inner/a b")),
            (b"GET /in", Ok("inner/a b")),
            (b"GET /inner", Err(Refusal::NoFile)),
            (b"GET /", Err(Refusal::NoFile)),
            (b"GET /out", Err(Refusal::NoFile)),
            (b"GET /../secret", Err(Refusal::NoFile)),
            (b"GET /inner/../../secret", Err(Refusal::NoFile)),
            (b"GET //etc/passwd", Err(Refusal::NoFile)),
            (b"GET /absent", Err(Refusal::NoFile)),
            (b"GET /a\0b", Err(Refusal::NoFile)),
            (b"POST /in", Err(Refusal::Request)),
            (b"\xff\xfe", Err(Refusal::Request)),
        ];
        for (request, want) in rows {
            let got = file_of(request, &folder);
            assert_eq!(got, want.map(|name| folder.join(name)), "{request:?}");
        }
    }
}
