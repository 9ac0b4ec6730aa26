/** Encodes what a remote command reads: the constant command line, its script, and the values. */
import type { RemoteCommand } from '../remote-ports.ts'

/**
 * The command line for the target's login shell, whichever that is: no newline, no backslash, one pair of quotes. `dd`
 * reads exactly the script, and what follows stays for the script to read.
 */
export const remoteCommandLine = ({ script }: Pick<RemoteCommand, 'script'>): string =>
  `exec sh -c 'eval "$(dd bs=1 count=${Buffer.byteLength(script)} 2>/dev/null)"'`

/** The script, then each value as the number of its lines and the lines. */
export const remoteInput = ({ script, values }: Pick<RemoteCommand, 'script' | 'values'>): string =>
  `${script}${values.map(encodeValue).join('')}`

function encodeValue(value: string): string {
  const lines = value === '' ? [] : value.replace(/\n$/, '').split('\n')
  return `${lines.length}\n${lines.map((line) => `${line}\n`).join('')}`
}
