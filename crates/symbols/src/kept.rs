//! What was found out before and is kept in files of the user's cache: the running kernel's symbols ([`kernel`]), and answers of
//! debug information ([`lines`]).

pub(crate) mod kernel;
pub(crate) mod lines;
