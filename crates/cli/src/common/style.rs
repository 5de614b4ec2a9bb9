//! Whether output is to look like perf's, for scripts that read it.

use std::path::Path;

/// It is: asked for, asked for by the environment (`PERFUSE_STYLE=perf`), or because the program is called
/// `perf`, which `PERFUSE_STYLE=perfuse` takes back.
pub(crate) fn is_perfs(asked_for: bool) -> bool {
    if asked_for {
        return true;
    }
    match std::env::var_os("PERFUSE_STYLE") {
        Some(style) if style == "perf" => true,
        Some(style) if style == "perfuse" => false,
        _ => {
            let name = std::env::args_os().next();
            name.is_some_and(|name| Path::new(&name).file_name().is_some_and(|name| name == "perf"))
        }
    }
}
