//! OpenSSH between the two hosts, with keys and settings of its own, whatever the user's are.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail, ensure};

use crate::shared::quote;

/// Where packages put the server, which must be started by its whole path.
const SERVERS: [&str; 4] = ["/usr/sbin/sshd", "/sbin/sshd", "/usr/bin/sshd", "/usr/local/sbin/sshd"];

/// Makes keys, the server's settings, and the client as one command, `WORK/ssh`.
pub(super) fn make(work: &Path, port: u16) -> anyhow::Result<()> {
    ensure!(
        work.to_str().is_some_and(|path| !path.contains(char::is_whitespace)),
        "scp and rsync need a --folder without spaces in its path"
    );
    for key in ["key", "host_key"] {
        let mut command = Command::new("ssh-keygen");
        let output = command.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(work.join(key)).output();
        let output = output.context("cannot run ssh-keygen (Debian: openssh-client)")?;
        ensure!(output.status.success(), "ssh-keygen failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    fs::copy(work.join("key.pub"), work.join("authorized_keys"))?;
    let folder = work.display();
    let settings = format!(
        "HostKey {folder}/host_key\nAuthorizedKeysFile {folder}/authorized_keys\nPidFile none\nStrictModes no\nUsePAM no\n\
         PasswordAuthentication no\nKbdInteractiveAuthentication no\nPermitRootLogin prohibit-password\nMaxStartups 100\n\
         LoginGraceTime 0\nSubsystem sftp internal-sftp\n"
    );
    fs::write(work.join("sshd_config"), settings)?;
    let client = work.join("ssh");
    let text = format!(
        "#!/bin/sh\nexec ssh -F none -q -i {folder}/key -p {port} -o IdentitiesOnly=yes -o BatchMode=yes \
         -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null \"$@\"\n"
    );
    fs::write(&client, text)?;
    Ok(fs::set_permissions(&client, fs::Permissions::from_mode(0o700))?)
}

/// The command that serves. It insists on a folder below /run that is made when its service starts; here it gets one in a mount namespace,
/// so that nothing of the machine changes.
pub(super) fn server(work: &Path, port: u16) -> anyhow::Result<String> {
    let Some(program) = SERVERS.iter().find(|path| Path::new(path).exists()) else {
        bail!("OpenSSH's server is not installed; scp and rsync need it (Debian: openssh-server)");
    };
    let settings = work.join("sshd_config");
    let run = format!(
        "mount -t tmpfs tmpfs /run && mkdir -p /run/sshd && exec {program} -D -e -f {} -p {port}",
        quote(&settings.display().to_string())
    );
    Ok(format!("exec unshare --mount sh -c {}", quote(&run)))
}
