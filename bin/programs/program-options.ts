/** Options that several programs take: whom a worker's side trusts, what git may reach, and the owner of the data directory. */
import { Option } from '@commander-js/extra-typings'
import {
  parseFingerprintOption,
  parseFolder,
  parsePath,
  parsePrivateHost,
  parseTakeOver,
} from '../process/parse-option.ts'

export const localRepos = (whose: string) =>
  new Option(
    '--local-repos <path>',
    `a folder below which git ${whose} may use repositories of this machine; repeatable`,
  )
    .default([] as readonly string[], 'none')
    .argParser((text, earlier: readonly string[]) => [...earlier, parseFolder(text)])

export const privateCodeHost = (whose: string) =>
  new Option(
    '--private-code-host <host[:port]>',
    `a code host that git ${whose} may contact at a private address or another port; repeatable`,
  )
    .default([] as readonly string[], 'none')
    .argParser((text, earlier: readonly string[]) => [...earlier, parsePrivateHost(text)])

export const takeOver = (what: string) =>
  new Option(
    '--take-over [word]',
    `your word that the ${what} of another machine or container that owns the data directory has ended for good; ` +
      '"exclusive-volume" is the word of a recipe in which one machine at a time can have the volume',
  )
    .preset('by-hand')
    .argParser(parseTakeOver)

export const caFile = () =>
  new Option(
    '--ca-file <path>',
    'certificate (PEM) of an authority to trust besides those of the system',
  ).argParser(parsePath)

export const fingerprint = () =>
  new Option(
    '--fingerprint <sha256>',
    'accept only the host with this certificate or this key; no authority is needed then',
  ).argParser(parseFingerprintOption)

export const hostUser = () =>
  new Option(
    '--host-user <user>',
    'the user whose program a host on this machine is (default: this one, or root)',
  )

export const INSECURE = 'allow a line without encryption to another machine'

export const WORKER_DATA_DIR =
  'the worker’s data directory (default: SWITCHYARD_DATA_DIR, else the platform’s place)'
