//! Privilege that a file gives to who runs it, for which the dynamic loader ignores LD_PRELOAD and
//! LD_LIBRARY_PATH (AT_SECURE; execve(2), capabilities(7)).

use rustix::fs::StatVfsMountFlags;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

const SET_USER: u32 = 0o4000;
/// Set-group counts only with the group's right to execute; without it, it means locking.
const SET_GROUP: u32 = 0o2010;
/// Stands for users that are not mapped into this user namespace, for whom nothing is set.
const UNMAPPED: u32 = 65_534;

/// Who runs a program.
#[derive(Clone, Copy, Debug)]
struct Runner {
    user: u32,
    group: u32,
}

/// What the file at `path` would give to us, in words; `None` if nothing changes.
pub(super) fn gained(path: &Path) -> Option<&'static str> {
    let file = std::fs::metadata(path).ok()?;
    let runner = Runner {
        user: rustix::process::getuid().as_raw(),
        group: rustix::process::getgid().as_raw(),
    };
    if !can_gain(path) {
        return None;
    }
    of_mode(file.permissions().mode(), (file.uid(), file.gid()), runner)
        .or_else(|| (runner.user != 0 && has_capabilities(path)).then_some("has capabilities"))
}

/// Whether the kernel honours such bits at all, here and for us.
fn can_gain(path: &Path) -> bool {
    let is_nosuid = rustix::fs::statvfs(path)
        .is_ok_and(|mount| mount.f_flag.contains(StatVfsMountFlags::NOSUID));
    !is_nosuid && !rustix::thread::no_new_privs().unwrap_or(false)
}

fn of_mode(mode: u32, (owner, group): (u32, u32), runner: Runner) -> Option<&'static str> {
    let sets_user = mode & SET_USER != 0 && owner != UNMAPPED && owner != runner.user;
    let sets_group = mode & SET_GROUP == SET_GROUP && group != UNMAPPED && group != runner.group;
    match (sets_user, sets_group) {
        (true, _) => Some("is setuid"),
        (false, true) => Some("is setgid"),
        (false, false) => None,
    }
}

/// Whether the file carries capabilities. Any of them counts, for whoever is not root.
fn has_capabilities(path: &Path) -> bool {
    let mut value = [0_u8; 64];
    let Ok(length) = rustix::fs::getxattr(path, "security.capability", &mut value[..]) else {
        return false;
    };
    // Four bytes of version and flags, then two words, permitted and inheritable, for each half.
    let permitted = |at: usize| value[..length].get(at..at + 4).is_some_and(|word| word != [0; 4]);
    permitted(4) || permitted(12) || value[0] & 1 != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_change_of_user_or_group_counts() {
        let runner = Runner { user: 1000, group: 100 };
        let of = |mode, owner, group| of_mode(mode, (owner, group), runner);
        assert_eq!(of(0o4755, 0, 0), Some("is setuid"));
        assert_eq!(of(0o4755, 1000, 0), None, "it is ours already");
        assert_eq!(of(0o2755, 0, 5), Some("is setgid"));
        assert_eq!(of(0o2755, 0, 100), None);
        assert_eq!(of(0o2745, 0, 5), None, "that is mandatory locking");
        assert_eq!(of(0o4755, 65_534, 0), None, "of a user that is not mapped here");
        assert_eq!(of(0o755, 0, 0), None);
        let root = Runner { user: 0, group: 0 };
        assert_eq!(of_mode(0o6755, (0, 0), root), None);
    }
}
