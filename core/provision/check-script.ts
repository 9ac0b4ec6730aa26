/**
 * The script that asks a machine whether a worker can run there. It prints facts as lines of a key and a value, and
 * changes nothing. `machine-report.ts` reads them.
 */
import { UNIT_NOTE } from './installed-files.ts'

export const CHECK_SCRIPT = `
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
