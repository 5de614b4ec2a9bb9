//! Records of tracepoints: the header that all have, and one number; and filters on them.

use perfuse_engine::Filter;
use perfuse_engine::abi::Errno;

/// The record of a hit: type, flags, preemption, pid, value.
pub(crate) fn record(id: u64, pid: u32, value: u64) -> [u8; 16] {
    let mut record = [0; 16];
    record[..2].copy_from_slice(&(id as u16).to_ne_bytes());
    record[4..8].copy_from_slice(&pid.to_ne_bytes());
    record[8..].copy_from_slice(&value.to_ne_bytes());
    record
}

fn number<const N: usize>(record: &[u8], at: usize) -> [u8; N] {
    record.get(at..at + N).and_then(|bytes| bytes.try_into().ok()).unwrap_or([0; N])
}

type Compare = fn(&u64, &u64) -> bool;

const COMPARES: [(&str, Compare); 6] =
    [("==", u64::eq), ("!=", u64::ne), ("<=", u64::le), (">=", u64::ge), ("<", u64::lt), (">", u64::gt)];

/// `FIELD OP NUMBER`, several joined by `&&` or `||`, of which `&&` binds stronger; the fields are `value`
/// and `common_pid` (rule J34).
pub(crate) fn filter(_id: u64, text: &str) -> Result<Filter, Errno> {
    type Field = fn(&[u8]) -> u64;
    let condition = |text: &str| -> Option<(Field, Compare, u64)> {
        let (name, compare) = COMPARES.iter().find(|(name, _)| text.contains(name))?;
        let (field, value) = text.split_once(name)?;
        let field: Field = match field.trim() {
            "value" => |record| u64::from_ne_bytes(number(record, 8)),
            "common_pid" => |record| u64::from(u32::from_ne_bytes(number(record, 4))),
            _ => return None,
        };
        Some((field, *compare, value.trim().parse().ok()?))
    };
    let all: Option<Vec<Vec<_>>> =
        text.split("||").map(|part| part.split("&&").map(condition).collect()).collect();
    let all = all.ok_or(Errno::EINVAL)?;
    Ok(Box::new(move |bytes| {
        all.iter().any(|part| part.iter().all(|(field, compare, value)| compare(&field(bytes), value)))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions() {
        let passes = |text: &str, value| filter(1, text).map(|filter| filter(&record(1, 7, value)));
        assert_eq!(passes("value == 3", 3), Ok(true));
        assert_eq!(passes("value<3 || value >= 9", 3), Ok(false));
        assert_eq!(passes("value<3 || value >= 9 && common_pid == 7", 9), Ok(true));
        for wrong in ["", "valu == 3", "value = 3", "value == x", "value == 1 ||"] {
            assert_eq!(passes(wrong, 1), Err(Errno::EINVAL), "{wrong}");
        }
    }
}
