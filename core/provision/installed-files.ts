/**
 * Formats the files that a provisioned worker is started by: a start script, the loop that restarts it where there is no
 * systemd, and the systemd unit.
 *
 * None of them holds a secret. Every value in a script is quoted by `quoteWord`; the folder's path has only characters
 * that need no quoting anywhere.
 */
import { createHash } from 'node:crypto'
import { isLoopback } from '../../protocol/loopback.ts'
import { quoteWord } from '../../protocol/quote-word.ts'
import { formatServiceUnit, LASTING_EXITS, type ServiceScope } from '../service/systemd-unit.ts'

export interface InstalledWorker {
  /** The folder of all that belongs to the worker; see `isPlainPath`. */
  readonly base: string
  /** The program that runs the package. */
  readonly node: string
  /** Below the base folder. */
  readonly folder: string
  readonly version: string
  /** The fleet's address. */
  readonly url: string
  readonly isExposed: boolean
  /** The user whose program the host is, for a worker that reaches it within its own machine. */
  readonly hostUser?: string | undefined
  readonly name: string
  readonly concurrency: number
  /** Certificates to trust; empty when there are none. */
  readonly authority: string
  readonly manager: ServiceManagerKind
  readonly isRoot: boolean
}

export type ServiceManagerKind = 'system' | 'user' | 'none'

export interface InstalledFiles {
  readonly start: string
  readonly run: string
  readonly unit: string
  readonly authority: string
  /** Names all of this; the next provisioning compares it. */
  readonly mark: string
}

/** A stop waits for the runs that are under way, which may take as long as the longest run and its end. */
const STOP_SECONDS_MAX = 7 * 24 * 3_600
const RESTART_SECONDS = 10
/** The check of a machine knows a unit of its own by this line. */
export const UNIT_NOTE = 'Provisioning has written this file and replaces it.'

/** A path that a unit, a script and a pattern of `grep` hold as it is. */
export const isPlainPath = (path: string): boolean => /^(\/[\w@+=:,.-]+)+$/.test(path) && path.length <= 1_024

export function formatInstalledFiles(worker: InstalledWorker): InstalledFiles {
  const start = formatStart(worker)
  const run = worker.manager === 'none' ? formatLoop(worker.base) : ''
  const unit = worker.manager === 'none' ? '' : formatWorkerUnit(worker, worker.manager)
  const hash = createHash('sha256')
    .update(JSON.stringify([worker.folder, start, run, unit, worker.authority]))
    .digest('hex')
  return { start, run, unit, authority: worker.authority, mark: `${worker.version} ${hash.slice(0, 32)}` }
}

function formatStart(worker: InstalledWorker): string {
  const { base, node, url, isExposed, hostUser, name, concurrency, authority, isRoot } = worker
  const { protocol, hostname } = new URL(url)
  const isJudged = hostUser !== undefined && /^(http|ws):$/.test(protocol) && isLoopback(hostname)
  const words = [
    node,
    `${base}/current/bin/switchyard-worker.mjs`,
    'worker',
    ...['--host', url],
    ...['--data-dir', `${base}/data`],
    ...['--token-file', `${base}/token`],
    `--name=${name}`,
    `--concurrency=${concurrency}`,
    ...(authority === '' ? [] : ['--ca-file', `${base}/authority.pem`]),
    ...(isExposed ? ['--insecure'] : []),
    ...(isJudged ? ['--host-user', hostUser] : []),
    '--log-format=json',
  ]
  return `#!/bin/sh
# Starts this machine's worker. Provisioning has written this file and replaces it.
# Options of your own belong into the file below, one in each line: --sandbox-dir=/srv/sandboxes
umask 077
HOME=\${HOME:-/root}
PATH=$HOME/.local/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:\${PATH:-/bin}
export HOME PATH
options=${isRoot ? '/etc' : '$HOME/.config'}/switchyard-worker/options
cd ${base} || exit 70
set -- ${words.map(quoteWord).join(' ')}
if [ -r "$options" ]; then
  while IFS= read -r option; do
    case $option in '' | '#'*) ;; *) set -- "$@" "$option" ;; esac
  done <"$options"
fi
exec "$@"
`
}

/** A stop signal goes to the worker, which drains; the loop ends after it. */
const formatLoop = (base: string): string => `#!/bin/sh
# Starts the worker again when it fails, on a machine without systemd. Not started when the machine boots.
base=${base}
stopped=
code=0
worker=
stop() {
  stopped=yes
  [ -n "$worker" ] && kill -TERM "$worker"
}
trap stop TERM INT
echo $$ >"$base/run.pid"
while [ -z "$stopped" ]; do
  [ "$(wc -c <"$base/log")" -gt 10000000 ] && : >"$base/log"
  "$base/start" &
  worker=$!
  echo "$worker" >"$base/worker.pid"
  wait "$worker"
  code=$?
  while kill -0 "$worker" 2>/dev/null; do
    wait "$worker"
    code=$?
  done
  case $code in 0 | ${LASTING_EXITS.join(' | ')}) break ;; esac
  [ -n "$stopped" ] && break
  sleep ${RESTART_SECONDS} &
  wait $!
done
rm -f "$base/run.pid" "$base/worker.pid"
echo "$code" >"$base/run.exit"
`

/** The start script becomes the worker, so that systemd watches the worker itself. */
const formatWorkerUnit = ({ base }: InstalledWorker, scope: ServiceScope): string =>
  formatServiceUnit({
    role: 'worker',
    scope,
    notes: [UNIT_NOTE],
    command: `${base}/start`,
    stopSeconds: STOP_SECONDS_MAX,
  })
