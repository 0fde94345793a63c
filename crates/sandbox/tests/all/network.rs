//! What can be reached.

use crate::support::{folder, literal, python, said};
use holdfast_sandbox::{Access, Network};
use std::net::TcpListener;

#[test]
fn without_a_network_nobody_outside_is_reached_and_loopback_is_private() {
    let outside = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = outside.local_addr().expect("bound").port();
    let said = said(python(&format!(
        "
say('outside', lambda: socket.create_connection(('127.0.0.1', {port}), 5))
say('world', lambda: socket.create_connection(('192.0.2.1', 80), 5))
server = socket.create_server(('127.0.0.1', 0))
say('own', lambda: socket.create_connection(server.getsockname(), 5))
say('vsock', lambda: socket.socket(40, socket.SOCK_STREAM))
say('alg', lambda: socket.socket(38, socket.SOCK_SEQPACKET))
"
    )));
    assert_eq!(said, "outside ECONNREFUSED\nworld ENETUNREACH\nown ok\nvsock EAFNOSUPPORT\nalg EAFNOSUPPORT\n");
}

#[test]
fn abstract_sockets_of_others_are_out_of_reach() {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixListener};
    let name = format!("holdfast-sandbox-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).expect("a name");
    let _listener = UnixListener::bind_addr(&address).expect("bound");
    for network in [Network::None, Network::Ports { connect: vec![], bind: vec![] }] {
        let program = format!(
            "
def connect(): socket.socket(socket.AF_UNIX).connect('\\0{name}')
say('abstract', connect)"
        );
        let mut sandbox = python(&program);
        sandbox.network = network.clone();
        let said = said(sandbox);
        assert!(said == "abstract EPERM\n" || said == "abstract ECONNREFUSED\n", "{network:?} {said}");
    }
}

#[test]
fn only_listed_ports_are_reached_and_bound() {
    let (allowed, other) =
        (TcpListener::bind("127.0.0.1:0").expect("a port"), TcpListener::bind("127.0.0.1:0").expect("a port"));
    let port = |listener: &TcpListener| listener.local_addr().expect("bound").port();
    let free = TcpListener::bind("127.0.0.1:0").expect("a port");
    let to_bind = port(&free);
    drop(free);
    let mut sandbox = python(&format!(
        "
say('allowed', lambda: socket.create_connection(('127.0.0.1', {}), 5))
say('other', lambda: socket.create_connection(('127.0.0.1', {}), 5))
say('bind', lambda: socket.create_server(('127.0.0.1', {to_bind})))
say('elsewhere', lambda: socket.create_server(('127.0.0.1', 0)))
say('datagrams', lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
say('raw', lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW))
say('fast', lambda: socket.socket().sendto(b'x', 0x20000000, ('127.0.0.1', {})))
",
        port(&allowed),
        port(&other),
        port(&other)
    ));
    sandbox.network = Network::Ports { connect: vec![port(&allowed)], bind: vec![to_bind] };
    let expected =
        "allowed ok\nother EACCES\nbind ok\nelsewhere EACCES\ndatagrams EAFNOSUPPORT\nraw EAFNOSUPPORT\nfast EPERM\n";
    assert_eq!(said(sandbox), expected);
}

#[test]
fn with_all_of_the_network_it_is_the_machines() {
    let outside = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = outside.local_addr().expect("bound").port();
    let mut sandbox = python(&format!("say('outside', lambda: socket.create_connection(('127.0.0.1', {port}), 5))"));
    sandbox.network = Network::All;
    assert_eq!(said(sandbox), "outside ok\n");
}

#[test]
fn a_socket_with_a_path_is_reached_only_where_the_view_shows_it() {
    let folder = folder();
    let path = folder.path().join("socket");
    let _listener = std::os::unix::net::UnixListener::bind(&path).expect("bound");
    let program = format!("say('path', lambda: socket.socket(socket.AF_UNIX).connect({}))", literal(&path));
    assert_eq!(said(python(&program)), "path ENOENT\n");
    assert_eq!(said(python(&program).mount(folder.path(), Access::Writable)), "path ok\n");
    assert_eq!(
        said(python(&program).mount(folder.path(), Access::Writable).mount(&path, Access::Hidden)),
        "path EACCES\n"
    );
}
