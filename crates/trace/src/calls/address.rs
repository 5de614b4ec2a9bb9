//! Addresses of sockets as lines tell them: `{AF_INET, 127.0.0.1:80}`.

use super::codes::{Names, names};
use super::decode::quoted;
use std::fmt::Write;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Bytes of a text of a call that are read; longer ones are cut.
pub const LONGEST_TEXT: usize = 512;

/// Bytes that a socket's address has at most: `sizeof(struct sockaddr_storage)`.
pub const LONGEST_ADDRESS: usize = 128;

/// An address as it lies in the memory of a process, in the machine's own order; nothing if it is of no family: then something else
/// lies there.
///
/// ```
/// let mut bytes = 1u16.to_ne_bytes().to_vec();
/// bytes.extend(b"/a\0");
/// assert_eq!(perfuse_trace::socket_address(&bytes).unwrap(), "{AF_UNIX, \"/a\"}");
/// ```
pub fn socket_address(bytes: &[u8]) -> Option<String> {
    let family = u16::from_ne_bytes(*bytes.first_chunk()?);
    let Some(Names::Codes(codes)) = names("af") else { return None };
    let (_, name) = codes.iter().find(|(code, _)| *code == u64::from(family) && family != 0)?;
    let mut out = format!("{{{name}");
    let rest = &bytes[2..];
    let _ = match family {
        1 => unix(&mut out, rest),
        2 if rest.len() >= 6 => {
            let address = Ipv4Addr::new(rest[2], rest[3], rest[4], rest[5]);
            write!(out, ", {address}:{}", u16::from_be_bytes([rest[0], rest[1]]))
        }
        10 if rest.len() >= 22 => {
            let address: [u8; 16] = std::array::from_fn(|at| rest[6 + at]);
            let scope = rest
                .get(22..)
                .and_then(|rest| rest.first_chunk())
                .map_or(0, |bytes| u32::from_ne_bytes(*bytes));
            let zone = if scope == 0 { String::new() } else { format!("%{scope}") };
            write!(out, ", [{}{zone}]:{}", Ipv6Addr::from(address), u16::from_be_bytes([rest[0], rest[1]]))
        }
        16 if rest.len() >= 10 => {
            let [pid, groups] =
                [2, 6].map(|at| rest[at..].first_chunk().map_or(0, |bytes| u32::from_ne_bytes(*bytes)));
            write!(out, ", pid={pid}, groups={groups:#x}")
        }
        _ if rest.iter().all(|byte| *byte == 0) => Ok(()),
        _ => {
            out.push_str(", ");
            rest.iter().take(16).try_for_each(|byte| write!(out, "{byte:02x}"))
        }
    };
    out.push('}');
    Some(out)
}

/// A path; one that begins with a zero is a name without a file, and goes on to the end.
fn unix(out: &mut String, rest: &[u8]) -> std::fmt::Result {
    match rest {
        [] => Ok(()),
        [0, name @ ..] => write!(out, ", @{}", quoted(&String::from_utf8_lossy(name))),
        path => {
            let path = path.split(|byte| *byte == 0).next().unwrap_or_default();
            write!(out, ", {}", quoted(&String::from_utf8_lossy(path)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(family: u16, rest: &[u8]) -> String {
        socket_address(&[&family.to_ne_bytes(), rest].concat()).unwrap_or_default()
    }

    #[test]
    fn addresses_are_told_by_family() {
        assert_eq!(of(2, &[0x1f, 0x90, 127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]), "{AF_INET, 127.0.0.1:8080}");
        let mut six = [0; 26];
        (six[1], six[21]) = (80, 1);
        assert_eq!(of(10, &six), "{AF_INET6, [::1]:80}");
        six[22..].copy_from_slice(&3u32.to_ne_bytes());
        assert_eq!(of(10, &six), "{AF_INET6, [::1%3]:80}");
        assert_eq!(of(1, b"/run/a\"\x1b[0m\0rest"), "{AF_UNIX, \"/run/a\\\"\\33[0m\"}");
        assert_eq!((of(1, b"\0name"), of(1, b"")), ("{AF_UNIX, @\"name\"}".into(), "{AF_UNIX}".into()));
        let mut netlink = [0; 10];
        netlink[2..6].copy_from_slice(&7u32.to_ne_bytes());
        netlink[6..].copy_from_slice(&0x11u32.to_ne_bytes());
        assert_eq!(of(16, &netlink), "{AF_NETLINK, pid=7, groups=0x11}");
        assert_eq!(of(0, &[0; 14]), "");
        assert_eq!(
            (of(17, &[1, 2, 0xff]), of(999, &[1, 2, 0xff])),
            ("{AF_PACKET, 0102ff}".into(), String::new())
        );
        // Too short.
        assert_eq!(
            (of(2, &[0, 80]), socket_address(&[2]), socket_address(&[])),
            ("{AF_INET, 0050}".into(), None, None)
        );
    }
}
