//! The user that serves: root's rights are given up once the socket and the folder are open.

use nix::errno::Errno;
use nix::unistd::{
    Gid, Uid, User as Account, getegid, geteuid, getgrouplist, getuid, setgroups, setresgid,
    setresuid,
};
use std::ffi::CString;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

/// The user that serves when the command is started as root.
const DEFAULT_USER: &str = "nobody";

/// Why a user cannot serve.
#[derive(Debug, thiserror::Error)]
pub enum UserError {
    /// The process cannot become this user.
    #[error("cannot run as user {user:?}: {why}\nfix: {fix}")]
    Unfit { user: String, why: String, fix: &'static str },
    /// The agent does not accept messages of this user.
    #[error(
        "{run_dir}: the agent there hears only root and its own user, and the server is to run as \
         {user}\nfix: add {user:?} to agent.datapath_users, and give the server --run-dir \
         {run_dir}.{uid}; or --user root keeps root's rights; or --controller cubic serves without \
         the agent",
        run_dir = run_dir.display()
    )]
    NotHeard { run_dir: PathBuf, user: String, uid: u32 },
}

/// A user with its groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    name: String,
    uid: Uid,
    gid: Gid,
    groups: Vec<Gid>,
}

impl User {
    /// Finds a user by name or number. A number without an entry in the user database is the
    /// number of the only group too.
    pub fn find(text: &str) -> Result<Self, UserError> {
        let refuse = |why: String| UserError::Unfit {
            user: text.to_owned(),
            why,
            fix: "give --user a name or a number of /etc/passwd",
        };
        let number: Option<u32> = text.parse().ok();
        let found = match number {
            // The system calls read the highest number as "do not change".
            Some(u32::MAX) => return refuse_number(text),
            Some(uid) => Account::from_uid(Uid::from_raw(uid)),
            None => Account::from_name(text),
        };
        match (found, number) {
            (Ok(Some(account)), _) => {
                let name =
                    CString::new(account.name.as_str()).map_err(|e| refuse(e.to_string()))?;
                let groups = getgrouplist(&name, account.gid);
                let groups = groups.map_err(|errno| refuse(format!("its groups: {errno}")))?;
                Ok(Self { name: account.name, uid: account.uid, gid: account.gid, groups })
            }
            // A host without a user database answers with an error.
            (Ok(None) | Err(Errno::ENOENT | Errno::ESRCH), Some(number)) => {
                let gid = Gid::from_raw(number);
                let uid = Uid::from_raw(number);
                Ok(Self { name: text.to_owned(), uid, gid, groups: vec![gid] })
            }
            (Ok(None), None) => Err(refuse("there is no such user".to_owned())),
            (Err(errno), _) => Err(refuse(format!("the user database cannot be read: {errno}"))),
        }
    }

    /// The user to become when the operator names none: `nobody` for root, else no other.
    pub fn default_of_process() -> Result<Option<Self>, UserError> {
        geteuid().is_root().then(|| Self::find(DEFAULT_USER)).transpose()
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether this user keeps root's rights.
    pub fn is_root(&self) -> bool {
        self.uid.is_root()
    }

    /// Refuses a user whose messages the agent of this run directory would not hear: the agent
    /// hears root and its own user, and only those can enter its directory. A user of
    /// `agent.datapath_users` has a directory of its own.
    pub(crate) fn check_agent(&self, run_dir: &Path) -> Result<(), UserError> {
        let is_heard = std::fs::metadata(run_dir)
            .is_ok_and(|meta| self.is_root() || meta.uid() == self.uid.as_raw());
        let knock = || UnixDatagram::unbound()?.connect(run_dir.join("datapath.sock"));
        if is_heard || knock().is_err() {
            return Ok(());
        }
        let (run_dir, user, uid) = (run_dir.to_owned(), self.name.clone(), self.uid.as_raw());
        Err(UserError::NotHeard { run_dir, user, uid })
    }

    /// Makes this the user of all threads of the process, without a way back.
    pub(crate) fn assume(&self) -> Result<(), UserError> {
        let own = geteuid();
        let is_same = self.uid == own && getuid() == own;
        if is_same && (own.is_root() || self.gid == getegid()) {
            return Ok(());
        }
        let refuse = |why: String, fix| UserError::Unfit { user: self.name.clone(), why, fix };
        if !own.is_root() {
            let why = "only root can change to another user".to_owned();
            return Err(refuse(why, "leave --user out, or start the command as root"));
        }
        let failed = |call| {
            let fix = "leave this user namespace, name a user that exists in it, or give --user \
                root to keep the rights of this process";
            move |errno| refuse(format!("{call}: {errno}"), fix)
        };
        setgroups(&self.groups).map_err(failed("setgroups"))?;
        setresgid(self.gid, self.gid, self.gid).map_err(failed("setresgid"))?;
        setresuid(self.uid, self.uid, self.uid).map_err(failed("setresuid"))?;
        let root = Uid::from_raw(0);
        if !self.is_root() && setresuid(root, root, root).is_ok() {
            let why = "the process can still become root".to_owned();
            return Err(refuse(why, "start it without securebits and without CAP_SETUID"));
        }
        Ok(())
    }
}

fn refuse_number(text: &str) -> Result<User, UserError> {
    let why = "the number is reserved".to_owned();
    Err(UserError::Unfit {
        user: text.to_owned(),
        why,
        fix: "give --user a number below 4294967295",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_found_by_name_and_number() {
        let root = User::find("root").expect("root is there");
        assert!(root.is_root() && root == User::find("0").expect("root is there"));
        let stranger = User::find("3999999999").expect("a number is enough");
        assert_eq!((stranger.gid.as_raw(), stranger.groups.len()), (3_999_999_999, 1));
        for bad in ["", "no such user", "-1", "4294967295", "a\0b"] {
            let error = User::find(bad).expect_err(bad).to_string();
            assert!(error.contains("fix:"), "{error}");
        }
    }

    #[test]
    fn an_agent_that_does_not_hear_the_user_is_said_at_the_start() {
        let run_dir = tempfile::tempdir().expect("a folder");
        let stranger = User::find("3999999999").expect("a number is enough");
        stranger.check_agent(run_dir.path()).expect("there is no agent");
        let path = run_dir.path().join("datapath.sock");
        let agent = UnixDatagram::bind(&path).expect("a socket");
        let error = stranger.check_agent(run_dir.path()).expect_err("another user").to_string();
        assert!(error.contains("fix:"), "{error}");
        let own = User::find(&geteuid().to_string()).expect("this user");
        own.check_agent(run_dir.path()).expect("the same user");
        drop(agent);
        stranger.check_agent(run_dir.path()).expect("the agent has ended");
    }

    #[test]
    fn only_root_changes_to_another_user() {
        let own = User::find(&geteuid().to_string()).expect("this user");
        own.assume().expect("it is the same user");
        if !geteuid().is_root() {
            let error = User::find("root").and_then(|root| root.assume());
            assert!(error.expect_err("not root").to_string().contains("fix:"));
        }
    }
}
