//! A Unix socket and its file: which file it may replace, its mode, and its removal.
//!
//! The file of a socket outlives its process. Such a file is replaced; a file of another kind and a
//! socket that somebody listens on are not. The listener removes its own file at its end.

use std::fs::{self, File, FileType, Metadata, Permissions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use socket2::{Domain, SockAddr, Socket, Type};
use tokio::net::{UnixListener, UnixStream};

/// A Unix socket on which clients connect.
#[derive(Debug)]
pub(crate) struct UnixSocket {
    listener: UnixListener,
    path: PathBuf,
    /// The file of this socket, which somebody may have replaced.
    file: Option<FileId>,
}

/// The device and the inode of a file.
type FileId = (u64, u64);

impl UnixSocket {
    /// Listens on a path. Its file has this mode, and never a wider one.
    pub(crate) fn bind(path: PathBuf, mode: u32) -> io::Result<Self> {
        make_room(&path)?;
        let socket = with_mode(Socket::new(Domain::UNIX, Type::STREAM, None)?, mode)?;
        socket.bind(&SockAddr::unix(&path)?)?;
        // The umask takes permissions away, and they are given back here. Nobody can connect before
        // `listen`.
        if fs::symlink_metadata(&path)?.permissions().mode() & 0o777 != mode {
            fs::set_permissions(&path, Permissions::from_mode(mode))?;
        }
        socket.listen(BACKLOG)?;
        socket.set_nonblocking(true)?;
        let listener = UnixListener::from_std(OwnedFd::from(socket).into())?;
        let file = fs::symlink_metadata(&path).ok().map(|file| id(&file));
        Ok(Self { listener, path, file })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Waits for a connection. Cancel-safe.
    pub(crate) async fn accept(&self) -> io::Result<UnixStream> {
        Ok(self.listener.accept().await?.0)
    }
}

impl Drop for UnixSocket {
    fn drop(&mut self) {
        let found = fs::symlink_metadata(&self.path).ok().map(|file| id(&file));
        if found.is_some() && found == self.file {
            fs::remove_file(&self.path).ok();
        }
    }
}

/// Gives a socket the mode that its file begins with. Linux makes the file with the mode of the
/// socket; elsewhere this may fail, and the file gets its mode before anybody can connect.
fn with_mode(socket: Socket, mode: u32) -> io::Result<Socket> {
    let file = File::from(OwnedFd::from(socket));
    let set = file.set_permissions(Permissions::from_mode(mode));
    if cfg!(target_os = "linux") {
        set?;
    }
    Ok(Socket::from(OwnedFd::from(file)))
}

/// Removes a socket file whose process is gone.
///
/// # Errors
/// When something else is at the path.
fn make_room(path: &Path) -> io::Result<()> {
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    if !found.file_type().is_socket() {
        let kind = kind_of(found.file_type());
        return Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            format!("there is {kind}, and only the socket of a server that is gone is replaced"),
        ));
    }
    if !is_abandoned(path)? {
        return Err(io::Error::new(io::ErrorKind::AddrInUse, "somebody listens on the socket"));
    }
    fs::remove_file(path)
}

/// Returns true if nobody listens on a socket.
fn is_abandoned(path: &Path) -> io::Result<bool> {
    let probe = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    // A server whose queue is full would keep the probe waiting.
    probe.set_nonblocking(true)?;
    match probe.connect(&SockAddr::unix(path)?) {
        Ok(()) => Ok(false),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(true),
        Err(error) => Err(error),
    }
}

/// The kind of a file, in words.
fn kind_of(found: FileType) -> &'static str {
    if found.is_dir() {
        "a directory"
    } else if found.is_symlink() {
        "a symbolic link"
    } else if found.is_fifo() {
        "a FIFO"
    } else if found.is_block_device() || found.is_char_device() {
        "a device"
    } else {
        "a regular file"
    }
}

fn id(file: &Metadata) -> FileId {
    (file.dev(), file.ino())
}

/// The number of connections that wait to be accepted. The system may allow fewer.
const BACKLOG: i32 = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777
    }

    fn refusal(path: &Path) -> io::Error {
        UnixSocket::bind(path.to_owned(), 0o600).unwrap_err()
    }

    #[tokio::test]
    async fn a_file_of_another_kind_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        fs::write(path("file"), "precious").unwrap();
        fs::create_dir(path("directory")).unwrap();
        let target = std::os::unix::net::UnixListener::bind(path("target")).unwrap();
        drop(target);
        std::os::unix::fs::symlink(path("target"), path("link")).unwrap();
        let kinds =
            [("file", "a regular file"), ("directory", "a directory"), ("link", "a symbolic link")];
        for (name, kind) in kinds {
            let refused = refusal(&path(name));
            assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
            assert!(refused.to_string().contains(kind), "{refused}");
        }
        assert_eq!(fs::read_to_string(path("file")).unwrap(), "precious");
        assert!(path("target").exists() && path("link").exists());
    }

    #[tokio::test]
    async fn the_socket_of_a_live_server_is_in_use_and_that_of_a_dead_one_is_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s");
        let alive = std::os::unix::net::UnixListener::bind(&path).unwrap();
        assert_eq!(refusal(&path).kind(), io::ErrorKind::AddrInUse);
        drop(alive);
        let socket = UnixSocket::bind(path.clone(), 0o600).unwrap();
        assert_eq!(refusal(&path).kind(), io::ErrorKind::AddrInUse);
        drop(socket);
        assert!(!path.exists());
        let datagrams = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
        refusal(&path);
        drop(datagrams);
        assert!(path.exists(), "it was left alone");
    }

    #[tokio::test]
    async fn the_file_has_the_mode_that_was_asked_for() {
        let directory = tempfile::tempdir().unwrap();
        for wanted in [0o600, 0o660, 0o666, 0o777] {
            let path = directory.path().join(format!("{wanted:o}"));
            let socket = UnixSocket::bind(path.clone(), wanted).unwrap();
            assert_eq!(mode(&path), wanted);
            drop(socket);
        }
    }

    /// The mode is that of the file from its first moment, so no other process can come in between.
    #[cfg(target_os = "linux")]
    #[test]
    fn the_file_is_made_with_its_mode() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s");
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
        with_mode(socket, 0o600).unwrap().bind(&SockAddr::unix(&path).unwrap()).unwrap();
        assert_eq!(mode(&path), 0o600);
    }

    #[tokio::test]
    async fn a_file_that_somebody_put_there_later_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s");
        let socket = UnixSocket::bind(path.clone(), 0o600).unwrap();
        fs::remove_file(&path).unwrap();
        let other = UnixSocket::bind(path.clone(), 0o600).unwrap();
        drop(socket);
        assert!(path.exists());
        drop(other);
        assert!(!path.exists());
    }
}
