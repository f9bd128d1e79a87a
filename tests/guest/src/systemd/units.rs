//! Units of this repository in a guest: installs them, and asks systemd how exposed they are.

use super::Booted;
use crate::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The endings of units' names.
const UNITS: [&str; 6] = ["path", "service", "slice", "socket", "target", "timer"];
/// Within this time systemd answers each request of this file.
const LIMIT: Duration = Duration::from_secs(120);
/// systemd's words before the figure of a unit.
const OVERALL: &str = "Overall exposure level for ";

/// What `systemd-analyze security` says of a unit.
#[derive(Clone, Debug, PartialEq)]
pub struct Rating {
    /// From 0, confined, to 10, exposed.
    pub exposure: f64,
    /// Whether the exposure is at most the threshold.
    pub passes: bool,
    /// Each setting, and what it adds to the exposure.
    pub table: String,
}

impl Booted {
    /// Installs the units of a folder of this host and its files for systemd-sysusers and
    /// systemd-tmpfiles, makes the users and folders that these name, and has systemd load the
    /// units. It starts none. A folder below it is the drop-in of a unit, as `remuda.service.d`.
    ///
    /// # Errors
    ///
    /// A file's name says no place for it; or the guest refuses a file, which the error names.
    pub fn install_units(&mut self, folder: &Path) -> Result<(), Error> {
        for from in files(folder)? {
            let file = from.display().to_string();
            let at = place(&from).ok_or(Error::NoUnit { file })?;
            let content =
                fs::read(&from).map_err(Error::doing(format!("read {}", from.display())))?;
            self.put(&at, &content, "644")?;
        }
        self.check("systemd-sysusers && systemd-tmpfiles --create", LIMIT)?;
        self.check("systemctl daemon-reload", LIMIT).map(drop)
    }

    /// What `systemd-analyze security` says of an installed unit, against a threshold from 0 to 10.
    ///
    /// # Errors
    ///
    /// There is no such unit, or the guest does not answer.
    pub fn rate(&mut self, unit: &str, threshold: f64) -> Result<Rating, Error> {
        // On the command line the threshold has no point: 20 is 2.0.
        let scaled = (threshold * 10.0).round();
        let unit = crate::shell_words(&[unit]);
        let script = format!("systemd-analyze security --no-pager --threshold={scaled} {unit}");
        let answer = self.run(&script, LIMIT)?;
        let Some(exposure) = exposure(&answer.output) else {
            let (missing, output) = ("exposure level", answer.output + &answer.errors);
            return Err(Error::Missing { script, missing, output });
        };
        Ok(Rating { exposure, passes: answer.status == 0, table: answer.output })
    }
}

/// The files of a folder and of the folders in it, in order.
fn files(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(here) = folders.pop() {
        let doing = || Error::doing(format!("list {}", here.display()));
        for entry in fs::read_dir(&here).map_err(doing())? {
            let entry = entry.map_err(doing())?;
            let kind = entry.file_type().map_err(doing())?;
            if kind.is_dir() { &mut folders } else { &mut files }.push(entry.path());
        }
    }
    files.sort();
    Ok(files)
}

/// Where systemd looks for a file, by the names of the file and of its folder.
fn place(file: &Path) -> Option<PathBuf> {
    let name = file.file_name()?.to_str()?;
    let folder = file.parent()?.file_name().unwrap_or_default().to_str()?;
    let is_unit = |name: &str| name.rsplit_once('.').is_some_and(|(_, end)| UNITS.contains(&end));
    let units = Path::new("/etc/systemd/system");
    if is_unit(name) {
        return Some(units.join(name));
    }
    if !name.ends_with(".conf") {
        return None;
    }
    if folder.strip_suffix(".d").is_some_and(is_unit) {
        return Some(units.join(folder).join(name));
    }
    let is_of = |of: &&str| name.contains(of) || folder.contains(of);
    let of = ["sysusers", "tmpfiles"].into_iter().find(is_of)?;
    Some(Path::new("/etc").join(format!("{of}.d")).join(name))
}

/// The figure in the last line of `systemd-analyze security`.
fn exposure(said: &str) -> Option<f64> {
    let (_, of) = said.rsplit_once(OVERALL)?;
    of.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_files_name_says_where_systemd_looks_for_it() {
        for (file, at) in [
            ("remuda.service", Some("/etc/systemd/system/remuda.service")),
            ("system/remuda.socket", Some("/etc/systemd/system/remuda.socket")),
            ("remuda.service.d/a.conf", Some("/etc/systemd/system/remuda.service.d/a.conf")),
            ("remuda-sysusers.conf", Some("/etc/sysusers.d/remuda-sysusers.conf")),
            ("sysusers.d/remuda.conf", Some("/etc/sysusers.d/remuda.conf")),
            ("remuda.tmpfiles.conf", Some("/etc/tmpfiles.d/remuda.tmpfiles.conf")),
            ("remuda.conf", None),
            ("README", None),
            ("sysusers", None),
        ] {
            assert_eq!(place(Path::new(file)), at.map(PathBuf::from), "{file}");
        }
    }

    #[test]
    fn the_figure_is_that_of_the_last_line() {
        let said =
            "✗ PrivateNetwork= … 0.5\n\n→ Overall exposure level for a.service: 1.9 OK :-)\n";
        assert_eq!(exposure(said), Some(1.9));
        assert_eq!(exposure("Unit a.service not found.\n"), None);
    }
}
