//! An author's file, and every module of the author's that the file can import.
//!
//! The behaviour of an arm depends on its file and on the modules that the file imports. An import
//! can happen at any moment, so the modules cannot be listed beforehand. We take every `.py` file
//! below the file's folder that an `import` statement can name. Files of an environment
//! (`venv/lib/python3.11/...`), of a hidden folder or of `node_modules/@a` cannot be named and are
//! left out. A file that no arm imports can be taken too; a change to it then only causes a new
//! run.
//!
//! Files that the arm reads as data are taken if a module declares them (`author_data.rs`).
//! Packages that are installed elsewhere are not included.

use crate::author_data::declared;
use crate::error::Error;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The most files and bytes. A folder with more is not for one author's arms; it is a home, for
/// example.
const FILES_MAX: usize = 1_000;
const BYTES_MAX: u64 = 16 << 20;
/// Most directory entries that the search looks at.
const ENTRIES_MAX: usize = 100_000;

/// The file and its modules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthorFiles {
    /// The path as the user named it.
    path: PathBuf,
    /// The content of each file, by its path below the author's folder.
    contents: BTreeMap<PathBuf, Vec<u8>>,
}

/// The form in which the files are sent to another machine. Texts are UTF-8, the encoding that
/// Python assumes unless a source file declares another one. Data is in hexadecimal digits.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Travelling {
    path: PathBuf,
    texts: BTreeMap<PathBuf, String>,
    data: BTreeMap<PathBuf, String>,
}

/// The state of the search: folders still to visit, and files found so far.
#[derive(Default)]
struct Walk {
    /// Each folder's path below the author's folder, with the canonical paths of the folders above
    /// it. A symbolic link that leads back to one of those is not followed.
    folders: Vec<(PathBuf, Vec<PathBuf>)>,
    contents: BTreeMap<PathBuf, Vec<u8>>,
    entries: usize,
    bytes: u64,
}

/// Whether `import` can name a module or package of this name.
fn is_name(name: &str) -> bool {
    let is_first = |c: char| c.is_alphabetic() || c == '_';
    name.starts_with(is_first) && name.chars().all(|c| is_first(c) || c.is_numeric())
}

fn is_module(place: &Path) -> bool {
    place.extension().is_some_and(|it| it == "py")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What [`hex`] wrote.
fn bytes(digits: &str) -> Option<Vec<u8>> {
    let pairs = digits.as_bytes().chunks(2);
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    pairs.map(|pair| byte(pair).filter(|_| pair.len() == 2)).collect()
}

impl AuthorFiles {
    pub fn read(path: &Path) -> Result<Self, Error> {
        let own = path.file_name().map(PathBuf::from).unwrap_or_default();
        let root = match path.parent() {
            Some(folder) if folder != Path::new("") => folder,
            _ => Path::new("."),
        };
        let mut walk = Walk { folders: vec![Default::default()], ..Walk::default() };
        // The author's file is taken even if `import` cannot name it.
        walk.take(root, own.clone(), path)?;
        while let Some((folder, above)) = walk.folders.pop() {
            walk.look(root, (&folder, above), path)?;
        }
        walk.take_data(root, path)?;
        Ok(Self { path: path.to_owned(), contents: walk.contents })
    }

    /// The files as one text, which [`AuthorFiles::parse`] reads.
    pub fn to_text(&self) -> Result<String, Error> {
        let (mut texts, mut data) = (BTreeMap::new(), BTreeMap::new());
        for (place, content) in &self.contents {
            if !self.is_module(place) {
                data.insert(place.clone(), hex(content));
                continue;
            }
            let text = String::from_utf8(content.clone()).map_err(|error| {
                let source = io::Error::new(io::ErrorKind::InvalidData, error.utf8_error());
                Error::AuthorFile { path: self.path.with_file_name(place), source }
            })?;
            texts.insert(place.clone(), text);
        }
        let travelling = Travelling { path: self.path.clone(), texts, data };
        serde_json::to_string(&travelling)
            .map_err(|error| Error::AuthorFile { path: self.path.clone(), source: error.into() })
    }

    /// Reads the text that [`AuthorFiles::to_text`] wrote.
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        let Travelling { path, texts, data } = serde_json::from_str(text)?;
        let mut contents: BTreeMap<_, _> =
            texts.into_iter().map(|(place, text)| (place, text.into_bytes())).collect();
        for (place, digits) in data {
            let content = bytes(&digits).ok_or_else(|| {
                let place = place.display();
                serde::de::Error::custom(format!("{place}: not pairs of hexadecimal digits"))
            })?;
            contents.insert(place, content);
        }
        Ok(Self { path, contents })
    }

    /// Whether Python runs the file; else it is data.
    fn is_module(&self, place: &Path) -> bool {
        is_module(place) || self.path.file_name() == Some(place.as_os_str())
    }

    /// The path as the user named it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the files below `folder` and returns the path of the author's file there.
    pub fn write(&self, folder: &Path) -> io::Result<PathBuf> {
        for (place, content) in &self.contents {
            let at = folder.join(place);
            fs::create_dir_all(at.parent().unwrap_or(folder))?;
            fs::write(&at, content)?;
        }
        Ok(folder.join(self.path.file_name().unwrap_or_default()))
    }

    /// A hash of all the files. Arms with another hash count as other arms.
    pub fn hash(&self) -> String {
        let mut hash = Sha256::new();
        let own = self.path.file_name().unwrap_or_default();
        hash.update(own.as_encoded_bytes());
        for (place, content) in &self.contents {
            for part in [place.as_os_str().as_encoded_bytes(), content] {
                hash.update(part.len().to_le_bytes());
                hash.update(part);
            }
        }
        hex(&hash.finalize())
    }
}

impl Walk {
    fn take(&mut self, root: &Path, place: PathBuf, author: &Path) -> Result<(), Error> {
        let at = root.join(&place);
        let failed = |source| Error::AuthorFile { path: at.clone(), source };
        self.bytes += fs::metadata(&at).map_err(failed)?.len();
        if self.bytes > BYTES_MAX || self.contents.len() == FILES_MAX {
            return Err(too_many(author));
        }
        let content = fs::read(&at).map_err(failed)?;
        self.contents.insert(place, content);
        Ok(())
    }

    /// Takes the data files that the modules declare.
    fn take_data(&mut self, root: &Path, author: &Path) -> Result<(), Error> {
        let mut places = Vec::new();
        for (module, content) in &self.contents {
            let named = declared(&String::from_utf8_lossy(content)).map_err(|rule| {
                let source = io::Error::new(io::ErrorKind::InvalidData, rule);
                Error::AuthorFile { path: root.join(module), source }
            })?;
            let folder = module.parent().unwrap_or(Path::new(""));
            places.extend(named.into_iter().map(|it| folder.join(it)));
        }
        for place in places {
            if !self.contents.contains_key(&place) {
                self.take(root, place, author)?;
            }
        }
        Ok(())
    }

    fn look(
        &mut self,
        root: &Path,
        (folder, mut above): (&Path, Vec<PathBuf>),
        author: &Path,
    ) -> Result<(), Error> {
        let at = root.join(folder);
        let failed = |source| Error::AuthorFile { path: at.clone(), source };
        let itself = fs::canonicalize(&at).map_err(failed)?;
        if above.contains(&itself) {
            return Ok(());
        }
        above.push(itself);
        for entry in fs::read_dir(&at).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            self.entries += 1;
            if self.entries > ENTRIES_MAX {
                return Err(too_many(author));
            }
            let name = entry.file_name();
            // `import` cannot name a file whose name is not Unicode.
            let Some(name) = name.to_str() else { continue };
            let place = folder.join(name);
            // A broken symbolic link cannot be imported.
            let Ok(about) = fs::metadata(entry.path()) else { continue };
            if about.is_dir() && is_name(name) {
                self.folders.push((place, above.clone()));
            } else if about.is_file()
                && name.strip_suffix(".py").is_some_and(is_name)
                && !self.contents.contains_key(&place)
            {
                self.take(root, place, author)?;
            }
        }
        Ok(())
    }
}

fn too_many(author: &Path) -> Error {
    Error::AuthorFolder { path: author.to_owned(), files: FILES_MAX, mib: BYTES_MAX >> 20 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(folder: &Path, place: &str, text: &str) {
        let path = folder.join(place);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn whatever_an_import_can_name_is_in_the_hash_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path();
        let arm = at.join("my-cca.py");
        write(at, "my-cca.py", "import gains, deep.er");
        write(at, "gains.py", "UP = 1.25");
        write(at, "deep/er/__init__.py", "");
        // A link to a folder above is not followed.
        std::os::unix::fs::symlink(at, at.join("deep/back")).unwrap();
        let hash = || AuthorFiles::read(&arm).unwrap().hash();
        let mut known = hash();
        for (place, text) in [
            ("notes.txt", "none"),
            ("venv/lib/python3.11/site.py", "none"),
            (".git/hook.py", "none"),
            ("1st.py", "none"),
        ] {
            write(at, place, text);
            assert_eq!(hash(), known, "{place}");
        }
        for (place, text) in [
            ("my-cca.py", "import gains"),
            ("gains.py", "UP = 2"),
            ("deep/er/__init__.py", "more"),
            ("deep/er/later.py", ""),
            ("unused.py", "who knows"),
        ] {
            write(at, place, text);
            let now = hash();
            assert_ne!(now, known, "{place}");
            known = now;
        }
        fs::rename(at.join("unused.py"), at.join("unused2.py")).unwrap();
        assert_ne!(hash(), known, "where a text is");
    }

    #[test]
    fn declared_data_is_in_the_hash_and_travels() {
        let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let arm = folder.path().join("arm.py");
        write(folder.path(), "arm.py", "import deep.er\nDATA_FILES = [\"policy.npz\"]\n");
        write(folder.path(), "deep/er.py", "DATA_FILES = ['table.csv']\n");
        write(folder.path(), "deep/table.csv", "1,2");
        let error = AuthorFiles::read(&arm).unwrap_err().to_string();
        assert!(error.contains("policy.npz: No such file"), "{error}");
        fs::write(folder.path().join("policy.npz"), b"PK\xff\x00").unwrap();
        let there = AuthorFiles::read(&arm).unwrap();
        let here = AuthorFiles::parse(&there.to_text().unwrap()).unwrap();
        assert_eq!(here, there);
        let file = here.write(other.path()).unwrap();
        assert_eq!(AuthorFiles::read(&file).unwrap().hash(), there.hash());
        for (place, content) in [("policy.npz", "PK\u{1}"), ("deep/table.csv", "1,3")] {
            let before = AuthorFiles::read(&arm).unwrap().hash();
            write(folder.path(), place, content);
            assert_ne!(AuthorFiles::read(&arm).unwrap().hash(), before, "{place}");
        }
        write(folder.path(), "arm.py", "DATA_FILES = glob('*')\n");
        let error = AuthorFiles::read(&arm).unwrap_err().to_string();
        assert!(error.contains("arm.py: DATA_FILES"), "{error}");
        for digits in ["f", "fg", "é"] {
            assert_eq!(bytes(digits), None, "{digits}");
        }
    }

    #[test]
    fn they_arrive_as_they_were() {
        let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        write(folder.path(), "my_cca.py", "import deep.er\n");
        write(folder.path(), "deep/er.py", "BETA = 'β'\n");
        std::os::unix::fs::symlink(folder.path().join("deep"), folder.path().join("too")).unwrap();
        let there = AuthorFiles::read(&folder.path().join("my_cca.py")).unwrap();
        let here = AuthorFiles::parse(&there.to_text().unwrap()).unwrap();
        assert_eq!(here, there);
        let names: Vec<_> = here.contents.keys().map(|place| place.to_str().unwrap()).collect();
        assert_eq!(names, ["deep/er.py", "my_cca.py", "too/er.py"]);
        let file = here.write(other.path()).unwrap();
        assert_eq!(file, other.path().join("my_cca.py"));
        assert_eq!(AuthorFiles::read(&file).unwrap().hash(), there.hash());
        fs::write(folder.path().join("latin.py"), b"'\xe9'").unwrap();
        let there = AuthorFiles::read(&folder.path().join("my_cca.py")).unwrap();
        let error = there.to_text().unwrap_err().to_string();
        assert!(error.contains("latin.py: invalid utf-8"), "{error}");
    }

    #[test]
    fn a_folder_of_thousands_is_refused_with_the_fix() {
        let folder = tempfile::tempdir().unwrap();
        (0..FILES_MAX).for_each(|at| write(folder.path(), &format!("m{at}.py"), ""));
        let path = folder.path().join("m0.py");
        assert_eq!(AuthorFiles::read(&path).unwrap().contents.len(), FILES_MAX);
        write(folder.path(), "one.py", "");
        let error = AuthorFiles::read(&path).unwrap_err().to_string();
        assert!(error.contains("m0.py: below its folder are more than 1000"), "{error}");
        assert!(error.contains("fix: "), "{error}");
        let error = AuthorFiles::read(Path::new("no.py")).unwrap_err().to_string();
        assert!(error.contains("no.py: No such file"), "{error}");
    }
}
