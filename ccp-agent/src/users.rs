//! Users and groups that a configuration names.

use nix::unistd::{Gid, Group, Uid, User};
use std::collections::BTreeSet;
use std::fs;

/// Every user of the host's own file, with the user's first group.
const PASSWD: &str = "/etc/passwd";

/// The uid of a user, who is named or numbered. `key` is the configuration's key, for the error.
pub fn uid_of(key: &str, name: &str) -> Result<u32, String> {
    if let Ok(uid) = name.parse() {
        return Ok(uid);
    }
    match User::from_name(name) {
        Ok(Some(user)) => Ok(user.uid.as_raw()),
        Ok(None) => Err(format!(
            "{key}: this host has no user {name:?}\nfix: name a user of `getent passwd`, or a uid"
        )),
        Err(error) => Err(format!("{key}: the host does not say who {name:?} is: {error}")),
    }
}

/// The name of a user; `None` if the host does not know the uid.
pub fn name_of(uid: u32) -> Option<String> {
    let user = User::from_uid(Uid::from_raw(uid)).ok().flatten()?;
    Some(user.name)
}

pub fn uids_of(key: &str, names: &[String]) -> Result<BTreeSet<u32>, String> {
    names.iter().map(|name| uid_of(key, name)).collect()
}

/// The uids of the members of these groups: those that the group lists, and those of
/// `/etc/passwd` whose first group it is.
pub fn members_of(key: &str, groups: &[String]) -> Result<BTreeSet<u32>, String> {
    let mut uids = BTreeSet::new();
    for name in groups {
        let found = match name.parse() {
            Ok(gid) => Group::from_gid(Gid::from_raw(gid)),
            Err(_) => Group::from_name(name),
        };
        let group = found
            .map_err(|error| format!("{key}: the host does not say who is in {name:?}: {error}"))?;
        let Some(group) = group else {
            return Err(format!(
                "{key}: this host has no group {name:?}\nfix: name a group of `getent group`, or \
                 a gid"
            ));
        };
        for member in &group.mem {
            uids.insert(uid_of(key, member)?);
        }
        let passwd = fs::read_to_string(PASSWD).unwrap_or_default();
        uids.extend(with_first_group(&passwd, group.gid.as_raw()));
    }
    Ok(uids)
}

fn with_first_group(passwd: &str, gid: u32) -> impl Iterator<Item = u32> {
    passwd.lines().filter_map(move |line| {
        let mut fields = line.split(':').skip(2);
        let uid = fields.next()?.parse().ok()?;
        (fields.next()?.parse() == Ok(gid)).then_some(uid)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_named_or_numbered() {
        let uids = uids_of("k", &["root".to_owned(), "65534".to_owned()]).expect("both exist");
        assert_eq!(uids, BTreeSet::from([0, 65_534]));
        let error = uids_of("k", &["no such user".to_owned()]).expect_err("it is refused");
        assert!(error.contains("k: this host has no user \"no such user\""), "{error}");
    }

    #[test]
    fn a_group_is_who_it_lists_and_whose_first_group_it_is() {
        let passwd = "root:x:0:0::/root:/bin/sh\na:x:7:50:::\nbroken\nb:x:8:50:::\nc:x:9:5:::\n";
        assert_eq!(with_first_group(passwd, 50).collect::<Vec<_>>(), [7, 8]);
        let root = members_of("k", &["root".to_owned()]).expect("it exists");
        assert!(root.contains(&0), "{root:?}");
        let error = members_of("k", &["no such group".to_owned()]).expect_err("it is refused");
        assert!(error.contains("k: this host has no group \"no such group\""), "{error}");
    }
}
