# shellcheck shell=bash
# Functions that the scripts in this folder share.  Sourced, never run: `. "$(dirname "$0")/lib.sh"`.
#
# Nothing here changes the machine's package set-up.  Files that the machine's own Debian release does
# not carry (another kernel, another rustc) are downloaded with a private apt root that lives in the
# cache, from the mirror that the machine's apt already uses, and are unpacked there, not installed.
# Functions hand their result back in $REPLY, so that `skip` ends the script and not a subshell.
# PERFUSE_DEBIAN_MIRROR, if set, is the Debian mirror to use instead of the one apt knows.

# shellcheck disable=SC2034 # the scripts use these
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)   # the repository
ME=${0##*/}
CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/perfuse-ci
KEYRING=/usr/share/keyrings/debian-archive-keyring.gpg
mkdir -p "$CACHE"

say() { echo "$ME: $*" >&2; }
die() { say "$*"; exit 1; }

# skip WHAT WHY: this machine cannot run the check at all.  77 is what automake calls a skipped test.
skip() { echo "skipped: $1: $2"; exit 77; }

# The comment paragraph at the top of the script is its help.
usage() { sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; }

# spent GROUP: the processor time of a process group up to now, of children that ended too, in hundredths of a second.
spent() { cat /proc/[0-9]*/stat 2>/dev/null | sed 's/.*) //' | awk -v group="$1" '$3 == group { n += $12 + $13 + $14 + $15 } END { print n + 0 }'; }

# watch GROUP LOG MOST_S QUIET_S: ends a process group when it takes more time on processors than MOST_S, or when for QUIET_S it
# neither takes any nor prints anything into its log, which tells so then.
watch() {
  local quiet=0 before='' now
  while sleep 10 && kill -0 -- "-$1" 2>/dev/null; do
    now="$(spent "$1") $(stat -c %s "$2")"
    if [ "$now" = "$before" ]; then quiet=$((quiet + 10)); else quiet=0; fi
    before=$now
    if [ "$quiet" -ge "$4" ]; then
      echo "is ended: it has done nothing for $4 s" >>"$2"
    elif [ "${now% *}" -gt $(($3 * 100)) ]; then
      echo "is ended: it took more than $3 s on processors" >>"$2"
    else
      continue
    fi
    kill -TERM -- "-$1" 2>/dev/null
    sleep 5
    kill -KILL -- "-$1" 2>/dev/null
    return
  done
}

# locked NAME: one process at a time past this line, until `unlocked`; two checks can share the cache.
locked() { exec 9>"$CACHE/$1.lock"; flock 9; }
unlocked() { exec 9>&-; }

# need COMMAND PACKAGE...: installs Debian packages of the machine's own release unless COMMAND is there.
# One installation at a time: two checks can run side by side.
need() {
  local cmd=$1 log
  shift
  if command -v "$cmd" >/dev/null; then return; fi
  command -v apt-get >/dev/null || skip "$cmd" "not installed, and there is no apt-get"
  [ "$(id -u)" = 0 ] || skip "$cmd" "not installed, and only root can install it (apt-get install $*)"
  say "installing $*"
  log=$(mktemp)
  if ! { flock 8 && apt-get -o DPkg::Lock::Timeout=300 update &&
    DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 install -y --no-install-recommends "$@"; } \
    >"$log" 2>&1 </dev/null 8>"$CACHE/apt.lock" || ! command -v "$cmd" >/dev/null; then
    tail -n 5 "$log" >&2
    rm -f "$log"
    skip "$cmd" "apt-get install $* failed"
  fi
  rm -f "$log"
}

# need_cargo CRATE VERSION: puts the program of that crate into PATH. It is built once, without optimization, and kept in
# the cache; one of that name that the machine has is taken as it is.
need_cargo() {
  local root=$CACHE/tools/$1-$2 log
  if command -v "$1" >/dev/null; then return; fi
  locked "$1"
  if [ ! -x "$root/bin/$1" ]; then
    say "building $1 $2"
    log=$(mktemp)
    if ! cargo install --locked --debug --no-track --root "$root" --target-dir "$root/target" "$1@$2" >"$log" 2>&1 </dev/null; then
      tail -n 5 "$log" >&2
      rm -rf "$log" "$root"
      skip "$1" "cargo install $1@$2 failed"
    fi
    rm -rf "$log" "$root/target"
  fi
  unlocked
  PATH=$root/bin:$PATH
}

# debian_mirror: the address of the Debian archive that the machine's apt uses.
debian_mirror() {
  local list
  REPLY=${PERFUSE_DEBIAN_MIRROR:-}
  [ -z "$REPLY" ] || return 0
  command -v apt-get >/dev/null || skip "Debian packages" "there is no apt-get"
  [ -e "$KEYRING" ] || skip "Debian packages" "no debian-archive-keyring"
  targets() { apt-get indextargets --format "\$(ORIGIN) \$(LABEL) \$(REPO_URI)" 'Created-By: Packages' 2>/dev/null || true; }
  list=$(targets)
  if [ -z "$list" ] && [ "$(id -u)" = 0 ]; then # nothing is known before the first update
    apt-get -o DPkg::Lock::Timeout=300 update -qq >/dev/null 2>&1 </dev/null || true
    list=$(targets)
  fi
  REPLY=$(sed -n 's/^Debian Debian //p' <<<"$list" | sed 's,/*$,,;q')
  [ -n "$REPLY" ] || skip "Debian packages" "apt knows no Debian mirror (run apt-get update?)"
}

# apt_root ARCH SUITE...: makes an apt root for these suites, and hands back its configuration, for
# APT_CONFIG=$REPLY apt-get ...   Its package lists are fetched once a day at most.
apt_root() {
  local arch=$1 name r s
  shift
  name=$arch-$(tr ' ' + <<<"$*")
  r=$CACHE/apt/$name
  if [ ! -e "$r/ok" ] || [ -n "$(find "$r/ok" -mmin +1440)" ]; then
    debian_mirror
    mkdir -p "$r"/{lists/partial,cache/archives/partial,etc/preferences.d,etc/sources.list.d}
    : >"$r/status"
    for s in "$@"; do echo "deb [arch=$arch signed-by=$KEYRING] $REPLY $s main"; done >"$r/etc/sources.list"
    cat >"$r/apt.conf" <<CONF
Dir::State "$r";
Dir::State::lists "$r/lists";
Dir::State::status "$r/status";
Dir::Cache "$r/cache";
Dir::Etc::sourcelist "$r/etc/sources.list";
Dir::Etc::sourceparts "$r/etc/sources.list.d";
Dir::Etc::preferencesparts "$r/etc/preferences.d";
APT::Architecture "$arch";
APT::Architectures { "$arch"; };
APT::Install-Recommends "false";
APT::Sandbox::User "";
Acquire::Languages "none";
Acquire::Retries "3";
Acquire::GzipIndexes "true";
Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "false";
CONF
    APT_CONFIG=$r/apt.conf apt-get update -qq -o APT::Update::Error-Mode=any >"$r/log" 2>&1 </dev/null ||
      { tail -n 3 "$r/log" >&2; skip "Debian $*" "apt-get update failed"; }
    : >"$r/ok"
  fi
  REPLY=$r/apt.conf
}

# deb_versions APT_CONFIG PACKAGE: every version that the suites of that root have, newest first.
deb_versions() { REPLY=$(APT_CONFIG=$1 apt-cache madison "$2" 2>/dev/null | awk '{print $3}' | sort -rVu); }

# deb_unpack APT_CONFIG DIR PACKAGE[=VERSION]...: downloads packages and unpacks them below DIR.
# Fails if one cannot be had.
deb_unpack() {
  local conf=$1 dir=$2 t d ok=1
  shift 2
  t=$(mktemp -d "$CACHE/deb.XXXXXX")
  mkdir -p "$dir"
  if (cd "$t" && APT_CONFIG=$conf apt-get download -qq "$@" >log 2>&1 </dev/null); then
    for d in "$t"/*.deb; do dpkg-deb -x "$d" "$dir" || ok=; done
  else
    ok=
  fi
  rm -rf "$t"
  [ -n "$ok" ]
}

# standard_library CRATE,... TARGET...: provides it for other targets, and sets the array BUILD_STD of arguments for
# cargo. rustup has it ready; without rustup cargo builds these crates of it.
standard_library() {
  local crates=$1 target
  shift
  BUILD_STD=()
  if command -v rustup >/dev/null; then timeout 300 rustup target add "$@" >/dev/null 2>&1 </dev/null || true; fi
  for target in "$@"; do
    [ -d "$(rustc --print target-libdir --target "$target")" ] || { build_std "$crates"; return; }
  done
}

# build_std CRATE,...: makes cargo build the standard library: sets the environment, and BUILD_STD.
# The source is Debian's package rust-src, which must be of exactly rustc's version.
build_std() {
  local version src conf full
  version=$(rustc --version | cut -d' ' -f2)
  src=$CACHE/rust-src-$version
  locked rust-src
  if [ ! -e "$src" ]; then
    apt_root "$(dpkg --print-architecture)" trixie trixie-backports sid experimental
    conf=$REPLY
    deb_versions "$conf" rust-src
    full=$(grep -m 1 "^$version+" <<<"$REPLY" || true)
    [ -n "$full" ] || skip "rust-src $version" "Debian has only ${REPLY//$'\n'/, }"
    rm -rf "$src.new"
    deb_unpack "$conf" "$src.new" "rust-src=$full" || skip "rust-src $version" "it cannot be downloaded"
    mv "$src.new/usr/src/rustc-$version/library" "$src"
    rm -rf "$src.new"
  fi
  unlocked
  # The variable is cargo's own, for its tests; the other way is a copy of the toolchain's folder.
  export RUSTC_BOOTSTRAP=1 __CARGO_TESTS_ONLY_SRC_ROOT=$src
  BUILD_STD=(--config "unstable.build-std=[\"${1//,/\",\"}\"]")
}
