/**
 * The scripts that run on a provisioned machine: one constant text for each step, for any POSIX shell.
 *
 * Everything that varies arrives on standard input: `text` reads a value, and what follows the values is the payload.
 * So no value is ever part of a command line. A script that fails says why on standard error. A script may run to its
 * end after its connection was cut, so those that change something take a lock.
 */
import { UNIT_NOTE } from './installed-files.ts'

/**
 * The beginning of every script that runs on a provisioned machine: where everything lies, and how the worker's service
 * is started and stopped, with systemd and without.
 *
 * `base` holds all that a provisioned worker has. `text` reads one value.
 */
const SCRIPT_PRELUDE = `set -u
umask 077
LC_ALL=C
PATH=$PATH:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export LC_ALL PATH
uid=$(id -u)
unit=switchyard-worker.service
if [ "$uid" = 0 ]; then
  base=/var/lib/switchyard-worker
  units=/etc/systemd/system
else
  base=$HOME/.local/lib/switchyard-worker
  units=$HOME/.config/systemd/user
  XDG_RUNTIME_DIR=/run/user/$uid
  export XDG_RUNTIME_DIR
fi
fail() { printf '%s\\n' "$*" >&2; exit 1; }
text() {
  IFS= read -r lines || fail 'the connection ended early'
  while [ "$lines" -gt 0 ]; do
    IFS= read -r line || fail 'the connection ended early'
    printf '%s\\n' "$line"
    lines=$((lines - 1))
  done
}
lock() {
  if [ "$uid" = 0 ]; then exec 8</var/lib; else exec 8<"$HOME"; fi
  if command -v flock >/dev/null; then flock -w 90 8 || fail 'another provisioning of this machine goes on'; fi
}
manager() {
  if [ ! -d /run/systemd/system ]; then echo none
  elif [ "$uid" = 0 ]; then echo system
  else echo user
  fi
}
ctl() { if [ "$uid" = 0 ]; then systemctl "$@" 8>&-; else systemctl --user "$@" 8>&-; fi; }
loop_pid() {
  pid=$(cat "$base/run.pid" 2>/dev/null) || return 1
  grep -q "$base/run" "/proc/$pid/cmdline" 2>/dev/null || return 1
  echo "$pid"
}
is_running() {
  if [ "$(manager)" = none ]; then loop_pid >/dev/null; else ctl is-active --quiet "$unit"; fi
}
stop_worker() {
  if [ "$(manager)" != none ]; then
    ctl stop "$unit"
    return
  fi
  pid=$(loop_pid) || return 0
  kill -TERM "$pid"
  tries=0
  while loop_pid >/dev/null; do
    tries=$((tries + 1))
    if [ "$tries" -gt "$1" ]; then
      kill -KILL "$(cat "$base/worker.pid")" "$pid"
      rm -f "$base/run.pid"
      return
    fi
    sleep 0.2
  done
}
start_worker() {
  if [ "$(manager)" != none ]; then
    ctl reset-failed "$unit" 2>/dev/null
    # The command would wait until the worker is ready, and hide why it ended.
    ctl start --no-block "$unit"
    return
  fi
  rm -f "$base/run.exit"
  touch "$base/log"
  setsid "$base/run" </dev/null >>"$base/log" 2>&1 8>&- &
}
`

/**
 * The script that asks a machine whether a worker can run there. It prints facts as lines of a key and a value, and
 * changes nothing. `machine-report.ts` reads them.
 */
const CHECK_SCRIPT = `
say() { printf '%s %s\\n' "$1" "$2"; }
say system "$(uname -s)"
say machine "$(uname -m)"
glibc=$(getconf GNU_LIBC_VERSION 2>/dev/null) || glibc=
say libc "$glibc"
say uid "$uid"
say base "$base"
say manager "$(manager)"
if [ "$(manager)" = user ]; then
  say answers "$(ctl show --property=Version 2>&1 | head -n 1)"
  say linger "$(loginctl show-user "$(id -un)" --property=Linger --value 2>/dev/null)"
fi
node=$(command -v node) && say node "$node" && say nodeVersion "$(node --version 2>/dev/null)"
git=$(command -v git) && say git "$(git --version | head -n 1)"
for program in setpriv prlimit; do
  [ -x "/usr/bin/$program" ] || say missing "$program"
done
for program in tar gzip sha256sum setsid; do
  command -v "$program" >/dev/null || say missing "$program"
done
folder=$base
while [ ! -d "$folder" ]; do folder=$(dirname "$folder"); done
[ -w "$folder" ] || say readonly "$folder"
say free "$(df -Pk "$folder" | awk 'NR == 2 { print $4 }')"
say files "$(df -Pi "$folder" | awk 'NR == 2 { print $2, $4 }')"
for bwrap in /usr/bin/bwrap /usr/local/bin/bwrap /bin/bwrap ''; do
  [ -x "$bwrap" ] && break
done
if [ -n "$bwrap" ]; then
  say bwrap "$bwrap"
  say bwrapVersion "$("$bwrap" --version)"
  as=
  [ "$uid" = 0 ] && as='setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all --'
  if error=$($as "$bwrap" --unshare-user --unshare-pid --unshare-net --unshare-ipc --unshare-uts \\
    --die-with-parent --cap-drop ALL --ro-bind / / --proc /proc --dev /dev /bin/sh -c : 2>&1 </dev/null); then
    say sandbox works
  else
    say sandbox "$(printf '%s' "$error" | tail -n 1)"
  fi
fi
for file in kernel/apparmor_restrict_unprivileged_userns kernel/unprivileged_userns_clone user/max_user_namespaces; do
  [ -r "/proc/sys/$file" ] && say "$file" "$(cat "/proc/sys/$file")"
done
if [ -e "$base" ] && [ ! -f "$base/provisioned" ]; then say foreign "$base"
elif [ -e "$units/$unit" ] && ! grep -q '${UNIT_NOTE}' "$units/$unit"; then say foreign "$units/$unit"
fi
credential=$base/data/credential.json
if [ -f "$base/installed" ]; then
  say installed "$(cat "$base/installed")"
  say workerId "$(sed -n 's/.*"workerId": *"\\([^"]*\\)".*/\\1/p' "$credential" 2>/dev/null)"
  say installation "$(sed -n 's/.*"installation": *"\\([^"]*\\)".*/\\1/p' "$credential" 2>/dev/null)"
  # The host stores this hash, so it proves which worker this is, and tells nobody the credential.
  secret=$(sed -n 's/.*"secret": *"\\([^"]*\\)".*/\\1/p' "$credential" 2>/dev/null)
  say proof "$(printf %s "$secret" | sha256sum | cut -d ' ' -f 1)"
  is_running && say running yes
fi
say end checked
`

/**
 * Copies a folder. Values: what to do with the payload (`unpack` or `store`), its SHA-256, the folder's name, and the
 * file that must be in the folder afterwards.
 */
const COPY = `
how=$(text) || exit 1
sum=$(text) || exit 1
name=$(text) || exit 1
file=$(text) || exit 1
lock
if [ ! -e "$base" ]; then mkdir -p "$base" && : >"$base/provisioned" || exit 1; fi
[ -f "$base/provisioned" ] || fail "$base belongs to something else"
[ "$uid" = 0 ] && chmod 755 "$base"
rm -rf "$base"/.copy.*
stage=$base/.copy.$$
mkdir "$stage" || exit 1
trap 'rm -rf "$stage"' EXIT
trap 'exit 1' HUP INT TERM PIPE
cat >"$stage/payload" || exit 1
[ "$(sha256sum <"$stage/payload" | cut -d ' ' -f 1)" = "$sum" ] || fail 'the copy is not what was sent'
umask 022
mkdir "$stage/new"
if [ "$how" = unpack ]; then
  tar -xzf "$stage/payload" -C "$stage/new" --no-same-owner || exit 1
else
  mkdir -p "$stage/new/$name/bin"
  mv "$stage/payload" "$stage/new/$name/$file"
  chmod 755 "$stage/new/$name/$file"
fi
[ -f "$stage/new/$name/$file" ] || fail 'the copied archive is not a worker package'
rm -rf "$base/$name"
mv "$stage/new/$name" "$base/$name" || exit 1
echo copied
`

/** Runs the copied program once. Value: its path below the base folder. */
const TRY_NODE = `
path=$(text) || exit 1
node=$base/$path
"$node" --version
`

/**
 * Asks the host's fleet listener for something that it refuses politely. Values: the program, the address to ask, the
 * authority that it must trust (may be empty).
 */
const REACH = `
node=$(text) || exit 1
url=$(text) || exit 1
authority=$(mktemp) || exit 1
trap 'rm -f "$authority"' EXIT
text >"$authority"
if [ -s "$authority" ]; then
  NODE_EXTRA_CA_CERTS=$authority
  export NODE_EXTRA_CA_CERTS
fi
"$node" -e '
  const url = new URL(process.argv[1])
  const ask = url.protocol === "https:" ? require("node:https") : require("node:http")
  const end = (text) => { console.log(text); process.exit(0) }
  const request = ask.get(url, { timeout: 8000 }, (answer) => end("answered " + answer.statusCode))
  request.on("timeout", () => end("failed no answer within 8 s"))
  request.on("error", (error) => end("failed " + (error.code || "") + " " + error.message))
' "$url"
`

/**
 * Installs the service. Values: the package's folder, the start script, the loop (without systemd), the unit (with
 * systemd), the authority. A file that was there is kept until the provisioning is finished.
 */
const INSTALL = `
folder=$(text) || exit 1
lock
before=$base/before
rm -rf "$base/next"
mkdir -p "$base/next" || exit 1
text >"$base/next/start"
text >"$base/next/run"
text >"$base/next/unit"
text >"$base/next/authority.pem"
echo whole >"$base/next/whole"
[ -d "$base/$folder" ] || fail 'the package is gone'
if [ -f "$base/installed" ] && [ ! -d "$before" ]; then
  mkdir "$base/before.new" || exit 1
  for file in start run authority.pem; do
    [ -f "$base/$file" ] && cp -p "$base/$file" "$base/before.new/$file"
  done
  [ -f "$units/$unit" ] && cp -p "$units/$unit" "$base/before.new/unit"
  readlink "$base/current" >"$base/before.new/current"
  is_running && : >"$base/before.new/running"
  mv "$base/before.new" "$before" || exit 1
fi
stop_worker 300 2>/dev/null
chmod 700 "$base/next/start" "$base/next/run"
mv "$base/next/start" "$base/start" && mv "$base/next/run" "$base/run" || exit 1
mv "$base/next/authority.pem" "$base/authority.pem" || exit 1
ln -s "$folder" "$base/next/current" && mv -T "$base/next/current" "$base/current" 2>/dev/null ||
  { rm -f "$base/current" && ln -s "$folder" "$base/current"; } || exit 1
if [ "$(manager)" != none ]; then
  mkdir -p "$units" && cp "$base/next/unit" "$units/$unit.new" && chmod 644 "$units/$unit.new" || exit 1
  mv "$units/$unit.new" "$units/$unit" || exit 1
  ctl daemon-reload && ctl enable "$unit" >/dev/null 2>&1 || fail "systemctl can't enable $unit"
  if [ "$uid" != 0 ] && [ "$(loginctl show-user "$(id -un)" --property=Linger --value 2>/dev/null)" != yes ]; then
    loginctl enable-linger || fail 'lingering is off'
    : >"$base/lingering"
  fi
fi
rm -rf "$base/next"
echo installed
`

/** Starts the worker. Value: a pairing token; empty when the worker has its credential. */
const START = `
lock
token=$base/token
text >"$token.new" || exit 1
if [ -s "$token.new" ]; then mv "$token.new" "$token"; else rm -f "$token.new"; fi
start_worker || exit 1
echo started
`

/** Prints how the worker is, and the end of its log. */
const STATUS = `
if is_running; then echo running
elif [ "$(manager)" = none ]; then
  if [ -f "$base/run.exit" ]; then echo "ended $(cat "$base/run.exit")"; else echo starting; fi
else
  case $(ctl show "$unit" --property=ActiveState --value) in
    failed | inactive) echo "ended $(ctl show "$unit" --property=ExecMainStatus --value)" ;;
    *) echo starting ;;
  esac
fi
if [ "$(manager)" = none ]; then tail -n 20 "$base/log"
elif [ "$uid" = 0 ]; then journalctl --unit "$unit" --lines 20 --output cat
else journalctl --user --unit "$unit" --lines 20 --output cat
fi 2>/dev/null | tail -c 8000
exit 0
`

/** Keeps what is installed now. Value: the mark that the next provisioning compares; then the names that stay. */
const FINISH = `
mark=$(text) || exit 1
keep=$(text) || exit 1
lock
rm -f "$base/token"
printf '%s\\n' "$mark" >"$base/installed.new" && mv "$base/installed.new" "$base/installed" || exit 1
rm -rf "$base/before"
for folder in "$base"/switchyard-worker-* "$base"/node-*; do
  [ -d "$folder" ] || continue
  printf '%s\\n' "$keep" | grep -qx "$(basename "$folder")" || rm -rf "$folder"
done
echo finished
`

/**
 * Undoes what this provisioning has done. Value: the folders that it copied. Without an earlier good version nothing
 * stays; otherwise that version is in use again.
 */
const UNDO = `
copied=$(text) || exit 1
lock
if [ ! -f "$base/provisioned" ]; then
  echo undone
  exit 0
fi
rm -rf "$base"/.copy.* "$base/next" "$base/before.new"
if [ ! -f "$base/installed" ]; then
  if [ "$(manager)" = none ]; then stop_worker 25 2>/dev/null
  elif [ -f "$units/$unit" ]; then
    ctl kill --signal=KILL "$unit" 2>/dev/null
    ctl disable --now "$unit" >/dev/null 2>&1
    rm -f "$units/$unit"
    ctl daemon-reload
    ctl reset-failed "$unit" 2>/dev/null
  fi
  [ -f "$base/lingering" ] && loginctl disable-linger
  rm -rf "$base" || exit 1
  # Folders that others use are not empty.
  [ "$uid" = 0 ] || rmdir "$units" "$HOME/.config/systemd" "$HOME/.config" "$HOME/.local/lib" "$HOME/.local" 2>/dev/null
  echo undone
  exit 0
fi
if [ -d "$base/before" ]; then
  stop_worker 300 2>/dev/null
  for file in start run authority.pem; do
    if [ -f "$base/before/$file" ]; then cp -p "$base/before/$file" "$base/$file"; else rm -f "$base/$file"; fi
  done
  rm -f "$base/token" "$base/current"
  ln -s "$(cat "$base/before/current")" "$base/current" || exit 1
  if [ -f "$base/before/unit" ]; then
    cp "$base/before/unit" "$units/$unit" && chmod 644 "$units/$unit"
    ctl daemon-reload
  fi
  if [ -f "$base/before/running" ]; then start_worker || exit 1; fi
  rm -rf "$base/before"
fi
printf '%s\\n' "$copied" | while IFS= read -r folder; do
  case $folder in
    switchyard-worker-* | node-*) [ "$(readlink "$base/current")" = "$folder" ] || rm -rf "$base/$folder" ;;
  esac
done
echo undone
`

const script = (body: string): string => `${SCRIPT_PRELUDE}${body}`

export const SCRIPTS = {
  check: script(CHECK_SCRIPT),
  copy: script(COPY),
  tryNode: script(TRY_NODE),
  reach: script(REACH),
  install: script(INSTALL),
  start: script(START),
  status: script(STATUS),
  finish: script(FINISH),
  undo: script(UNDO),
} as const
