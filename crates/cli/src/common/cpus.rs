//! Cpus as people name them: the option -C.

use crate::exit::Failure;
use perfuse::{Perf, cpu_list, parse_cpu_list};

/// Of a list such as `0-3,8`, those that are online, and a remark where others were asked for too. Fails where
/// none is.
pub(crate) fn chosen(kernel: &Perf, list: &str) -> Result<(Vec<u32>, Option<String>), Failure> {
    let cpus = parse_cpu_list(list);
    let cpus =
        cpus.ok_or_else(|| Failure::usage(format_args!("-C wants cpus such as 0-3,8, not '{list}'")))?;
    let online = kernel.surroundings().online_cpus();
    let (there, missing): (Vec<u32>, Vec<u32>) = cpus.iter().partition(|cpu| online.contains(cpu));
    let are_not = match missing[..] {
        [] => return Ok((there, None)),
        [cpu] => format!("there is no cpu {cpu} online"),
        _ => format!("there are no cpus {} online", cpu_list(&missing)),
    };
    if there.is_empty() {
        return Err(Failure::new(format_args!("-C {list}: {are_not}, only {}", cpu_list(&online))));
    }
    let remark = format!("-C {list}: {are_not}; the results are about {} alone", cpu_list(&there));
    Ok((there, Some(remark)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_is_said() {
        let linux = Perf::linux();
        let chosen = |list: &str| super::chosen(&linux, list);
        let first = perfuse::online_cpus()[0];
        let (cpus, remark) = chosen(&format!("{first},60000-60001")).unwrap();
        assert_eq!(cpus, [first]);
        assert!(remark.unwrap().contains("there are no cpus 60000-60001 online"));
        assert_eq!(chosen(&first.to_string()).unwrap(), (vec![first], None));
        let none = chosen("60000").unwrap_err().to_string();
        assert!(none.contains("there is no cpu 60000 online, only "), "{none}");
        assert!(chosen("3-1").is_err());
    }
}
