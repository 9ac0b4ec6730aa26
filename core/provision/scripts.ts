/**
 * The scripts that run on a provisioned machine: one constant text for each step, for any POSIX shell.
 *
 * Everything that varies arrives on standard input: `text` reads a value, and what follows the values is the payload.
 * So no value is ever part of a command line. A script that fails says why on standard error. A script may run to its
 * end after its connection was cut, so those that change something take a lock.
 */
import { CHECK_SCRIPT } from './check-script.ts'
import { SCRIPT_PRELUDE } from './script-prelude.ts'

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
