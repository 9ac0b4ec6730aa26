/**
 * Finds the address and the token of the host, for commands that are its clients.
 *
 * `SWITCHYARD_URL` names any host, and `SWITCHYARD_TOKEN_FILE` the file with its token; `SWITCHYARD_TOKEN` is the token
 * itself, which every process of the same user can read in the environment. Otherwise it is the host of a data
 * directory, found by the `launch.json` that a running host keeps there. The token is sent only in a header, and
 * unencrypted only on this machine, to a program of the user who owns the host. Clients look again before every connection, because a restarted
 * host has another port and another token.
 */
import { closeSync, constants, fstatSync, openSync, readSync } from 'node:fs'
import { join } from 'node:path'
import { LAUNCH_TOKEN_CHARS_MAX, URL_CHARS_MAX } from '../protocol/limits.ts'
import { LOOPBACK_IPV4 } from '../protocol/loopback.ts'
import { codeOf } from '../protocol/message-of.ts'
import type { HostAddress, HostOwner } from './connection.ts'
import { HostNotFound, WrongAddress } from './errors.ts'
import { findUser, ownUser } from './peer-owner.ts'

export type HostEnvironment = Readonly<Record<string, string | undefined>>

/** In the data directory; holds the socket that the launch file names where the kernel names no users of sockets. */
export const SOCKET_FOLDER = 'socket'
const SOCKET_NAME = /^[\w-]{1,40}$/
const LAUNCH_BYTES_MAX = 16 * 1024
const LOOPBACK = new RegExp(`^(?:localhost|${LOOPBACK_IPV4}|\\[::1\\])$`)
const TOKEN = new RegExp(`^[\\x21-\\x7e]{1,${LAUNCH_TOKEN_CHARS_MAX}}$`)
const FORM = 'write it like http://127.0.0.1:4400'

/** Throws a `HostNotFound` or a `WrongAddress` with the message for the person. */
export async function findHost(dataDir: string, env: HostEnvironment): Promise<HostAddress> {
  const url = env.SWITCHYARD_URL ?? ''
  return url === '' ? findHostOf(dataDir) : hostFromEnvironment(url, tokenFrom(env), ownerFrom(env))
}

// ---- named by the environment --------------------------------------------------------------------------------------

interface GivenToken {
  readonly token: string
  /** The variable that gives it. */
  readonly variable: string
}

function tokenFrom({
  SWITCHYARD_TOKEN: token = '',
  SWITCHYARD_TOKEN_FILE: file = '',
}: HostEnvironment): GivenToken {
  if (token !== '' || file === '') return { token, variable: 'SWITCHYARD_TOKEN' }
  try {
    return { token: readBeginning(file).text.trim(), variable: 'SWITCHYARD_TOKEN_FILE' }
  } catch (error) {
    throw new WrongAddress(`SWITCHYARD_TOKEN_FILE: ${file} cannot be read (${codeOf(error)})`)
  }
}

const OWNER_SETTING = 'SWITCHYARD_HOST_USER'

/** The caller, and the user that the environment names. */
function ownerFrom({ [OWNER_SETTING]: name = '' }: HostEnvironment): HostOwner {
  const { users } = ownUser()
  const setting = `${OWNER_SETTING}=`
  if (name === '') return { users, setting }
  const named = findUser(name)
  if (named === undefined)
    throw new WrongAddress(
      `${OWNER_SETTING}: /etc/passwd does not name ${name}; give the user’s number, which id -u prints`,
    )
  return { users: [named, ...users], setting }
}

function hostFromEnvironment(
  address: string,
  { token, variable }: GivenToken,
  owner: HostOwner,
): HostAddress {
  const wrong = (what: string) => new WrongAddress(`SWITCHYARD_URL: ${what}`)
  const url = parseAddress(address)
  if (url === undefined) throw wrong(`not the address of a host; ${FORM}`)
  if (url.username !== '' || url.password !== '')
    throw wrong(`must not hold a user or a password; the token goes into the file of SWITCHYARD_TOKEN_FILE`)
  if (url.protocol === 'http:' && !LOOPBACK.test(url.hostname))
    throw wrong('the token would travel without encryption; use https://, or a tunnel that ends on 127.0.0.1')
  if (!TOKEN.test(token))
    throw new WrongAddress(
      `${variable}: must be the token of the host in SWITCHYARD_URL; its launch.json contains the token`,
    )
  return { url: withoutSlash(url), token, tokenFrom: variable, owner, isFromEnvironment: true }
}

function parseAddress(text: string): URL | undefined {
  const url = text.length <= URL_CHARS_MAX && URL.canParse(text) ? new URL(text) : undefined
  if (url === undefined || !/^https?:$/.test(url.protocol)) return undefined
  return url.search === '' && url.hash === '' ? url : undefined
}

const withoutSlash = (url: URL): string => `${url.origin}${url.pathname.replace(/\/+$/, '')}`

// ---- of a data directory -------------------------------------------------------------------------------------------

/** Throws as `findHost` does. */
export function findHostOf(dataDir: string): HostAddress {
  const path = join(dataDir, 'launch.json')
  const { text, uid } = readLaunchText(path, dataDir)
  const launch = parseObject(text)
  const [address, token] = [Reflect.get(launch, 'url'), Reflect.get(launch, 'token')]
  const url = typeof address === 'string' ? parseAddress(address) : undefined
  if (url === undefined || typeof token !== 'string' || !TOKEN.test(token))
    throw new HostNotFound(`${path} does not contain the host’s address`, 'restart the host')
  // Volumes may show every file under one user (NFS, CIFS); the caller's own programs can read the file anyway.
  const owner: HostOwner = { users: [uid, ...ownUser().users], ...socketOf(launch, dataDir) }
  return { url: withoutSlash(url), token, tokenFrom: path, owner }
}

function socketOf(launch: object, dataDir: string): Pick<HostOwner, 'socketPath'> {
  const name: unknown = Reflect.get(launch, 'socket')
  return typeof name === 'string' && SOCKET_NAME.test(name)
    ? { socketPath: join(dataDir, SOCKET_FOLDER, name) }
    : {}
}

function readLaunchText(path: string, dataDir: string): FileBeginning {
  try {
    return readBeginning(path)
  } catch (error) {
    const code = codeOf(error)
    if (code === 'ENOENT') throw new HostNotFound(`no host is running for ${dataDir}`, 'switchyard serve')
    throw new HostNotFound(
      `${path} cannot be read (${code})`,
      'name the host’s data directory with --data-dir, or the host with SWITCHYARD_URL',
    )
  }
}

interface FileBeginning {
  readonly text: string
  /** The owner of the file. */
  readonly uid: number
}

/** Loading the asynchronous functions of the file system would take longer than reading this small file. */
function readBeginning(path: string): FileBeginning {
  // Without O_NONBLOCK opening a named pipe would block for ever.
  const file = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK)
  try {
    const bytes = Buffer.alloc(LAUNCH_BYTES_MAX)
    return { text: bytes.toString('utf8', 0, readSync(file, bytes)), uid: fstatSync(file).uid }
  } finally {
    closeSync(file)
  }
}

function parseObject(text: string): object {
  try {
    return Object(JSON.parse(text))
  } catch {
    return {}
  }
}
