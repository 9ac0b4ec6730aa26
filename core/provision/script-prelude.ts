/**
 * The beginning of every script that runs on a provisioned machine: where everything lies, and how the worker's service
 * is started and stopped, with systemd and without.
 *
 * `base` holds all that a provisioned worker has. `text` reads one value.
 */
export const SCRIPT_PRELUDE = `set -u
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
