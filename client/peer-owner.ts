/**
 * `provePeer` finds out whose program is at the other end of a connection within this machine, before a secret leaves
 * over it: any user can listen on the port that a dead host has left.
 *
 * The kernel names the user of a socket once a program has accepted it. Before that the row has no inode, on older
 * kernels with the uid of root, and whoever accepts late still reads what was sent: only a row with an inode counts.
 * A certificate proves lines with TLS, and connections to other machines are not judged here.
 */
import { closeSync, openSync, readFileSync, readSync } from 'node:fs'
import type { Socket } from 'node:net'
import type { HostOwner } from './connection.ts'
import { ForeignPeer } from './errors.ts'

/** How long the program at the port may take to accept the connection. */
const ACCEPT_MS_MAX = 10_000
/** A connection whose other end the kernel does not list by then goes through a redirection. */
const LISTED_MS_MAX = 1_000
const PAUSE_MS_MAX = 50
const SUPERUSER = 0
const PRODUCT = 'switchyard'
/** Stands for every user that a namespace of users does not contain. */
const OVERFLOW_UID = 65_534
const TABLES = ['tcp', 'tcp6']
const CHUNK_BYTES = 64 * 1024
const IS_LITTLE_ENDIAN = new Uint8Array(Uint16Array.of(1).buffer)[0] === 1
/** A /proc that shows processes only (`subset=pid`) has the first folder, but not the second. */
const TABLE_FOLDERS = ['/proc/self/net', '/proc/net']
/** The states in which the other end has closed the connection (include/net/tcp_states.h). */
const CLOSED_STATES = ['04', '05', '06', '07', '09', '0B']

/** Rejects with a `ForeignPeer`; then nothing may be sent. */
export async function provePeer(socket: Socket, owner: HostOwner = ownUser()): Promise<void> {
  // The kernel's table is long on busy machines, and a host would read it for each request of its own page.
  if (owner.isThisProcess === true || owner.socketPath !== undefined) return
  const { localAddress = '', localPort = 0, remoteAddress = '', remotePort = 0 } = socket
  if (!isWithinMachine(localAddress, remoteAddress) || process.platform !== 'linux') return
  const [own, peer] = [addressPattern(localAddress, localPort), addressPattern(remoteAddress, remotePort)]
  const began = process.uptime()
  for (let pauseMs = 1; ; pauseMs = Math.min(2 * pauseMs, PAUSE_MS_MAX)) {
    const found = findPeer(remoteAddress.includes(':') ? TABLES.toReversed() : TABLES, readTable, own, peer)
    if (found === 'unreadable') throw hidden(remoteAddress, remotePort)
    if (socket.destroyed || socket.readableEnded || found === 'closed')
      throw new Error('the connection broke')
    if (socket.readableLength > 0)
      throw new Error('what answers there speaks before it is asked, which no host does')
    if (typeof found !== 'string') return judgePeer(found, owner, remotePort)
    const ms = 1_000 * (process.uptime() - began)
    if (found === 'unlisted' && ms > LISTED_MS_MAX) throw redirected(remoteAddress, remotePort)
    if (ms > ACCEPT_MS_MAX)
      throw new Error(
        `no program has accepted the connection within ${ACCEPT_MS_MAX / 1000} s; a proxy that waits for data first (TCP_DEFER_ACCEPT) never does: use the port of the host itself`,
      )
    await new Promise((resolve) => setTimeout(resolve, pauseMs))
  }
}

/** The program of this user. */
export const ownUser = (): HostOwner => ({ users: [process.getuid?.() ?? SUPERUSER] })

// ---- the kernel's tables -------------------------------------------------------------------------------------------

type FoundPeer = 'unreadable' | 'unlisted' | 'unaccepted' | 'closed' | number

/** The parts of a table, each with whole rows. */
type ReadTable = (name: string) => Iterable<string>

/**
 * The user of the socket at the other end. No two sockets have the same pair of addresses, so an accepted one ends the
 * search: the kernel walks through all of its memory for connections, which takes milliseconds for each table.
 *
 * @param own our end as a pattern, from `addressPattern`
 * @param peer the other end, likewise
 */
export function findPeer(
  names: readonly string[],
  readTable: ReadTable,
  own: string,
  peer: string,
): FoundPeer {
  const row = new RegExp(`: ${peer} ${own} (\\w\\w) (?:\\S+ +){3}(\\d+) +\\d+ (\\d+) `)
  const plainOwn = `${own.replace(MAPPED, '')} `
  let found: FoundPeer = 'unreadable'
  for (const name of names)
    for (const rows of readTable(name)) {
      // Few parts have our address, and finding a plain text costs less than matching a pattern.
      const [, state = '', uid, inode] = (rows.includes(plainOwn) ? row.exec(rows) : null) ?? []
      if (inode !== undefined && inode !== '0') return Number(uid)
      if (inode !== undefined) found = CLOSED_STATES.includes(state) ? 'closed' : 'unaccepted'
      else if (found === 'unreadable') found = 'unlisted'
    }
  return found
}

/**
 * Empty where nobody may read it; a kernel without IPv6 lacks one of the tables. The kernel writes the table while it is
 * read, and the threads that read files for Node would cost a command more than the table.
 */
function* readTable(name: string): Generator<string> {
  for (const folder of TABLE_FOLDERS) {
    let hasRows = false
    for (const rows of readRows(`${folder}/${name}`)) {
      hasRows = true
      yield rows
    }
    if (hasRows) return
  }
}

function* readRows(path: string): Generator<string> {
  const file = openIfReadable(path)
  if (file === undefined) return
  try {
    const bytes = Buffer.allocUnsafe(CHUNK_BYTES)
    let rest = ''
    for (;;) {
      const length = readSync(file, bytes)
      if (length === 0) break
      const text = rest + bytes.toString('latin1', 0, length)
      const end = text.lastIndexOf('\n') + 1
      rest = text.slice(end)
      yield text.slice(0, end)
    }
  } catch {
    // A table that ends early lists fewer sockets, and what is not listed is not trusted.
  } finally {
    closeSync(file)
  }
}

function openIfReadable(path: string): number | undefined {
  try {
    return openSync(path, 'r')
  } catch {
    return undefined
  }
}

/** The beginning of a pattern that a plain IPv4 address lacks. */
const MAPPED = /^\(.*\)\?/

/** As the kernel prints an address: words of 32 bits, in the order of bytes of this machine. */
export function addressPattern(address: string, port: number): string {
  const bytes = bytesOf(address)
  const words = Array.from({ length: bytes.length / 4 }, (_, index) =>
    bytes.subarray(4 * index, 4 * index + 4),
  )
  const inOrder = words.map((word) => (IS_LITTLE_ENDIAN ? Buffer.from(word).reverse() : word).toString('hex'))
  const text = inOrder.join('').toUpperCase()
  const isIPv4 = bytes.length === 4
  const mapped = IS_LITTLE_ENDIAN ? 'FFFF0000' : '0000FFFF'
  return `${isIPv4 ? `(?:0{16}${mapped})?` : ''}${text}:${port.toString(16).toUpperCase().padStart(4, '0')}`
}

/** The bytes of an address as Node writes it; a mapped IPv4 address counts as IPv4. */
function bytesOf(address: string): Buffer {
  const plain = address.replace(/%.*$/, '').replace(/^::ffff:(?=\d+\.)/i, '')
  if (plain.includes('.')) return Buffer.from(plain.split('.').map(Number))
  const [head = [], tail = []] = plain
    .split('::')
    .map((part) => part.split(':').filter((group) => group !== ''))
  const zeros = Array<string>(8 - head.length - tail.length).fill('0')
  return Buffer.from([...head, ...zeros, ...tail].map((group) => group.padStart(4, '0')).join(''), 'hex')
}

const isWithinMachine = (local: string, remote: string): boolean =>
  /^(::ffff:)?127\.|^::1$/i.test(remote) || remote === local

// ---- the judgement -------------------------------------------------------------------------------------------------

function judgePeer(uid: number, { users, setting }: HostOwner, port: number): void {
  if (uid === SUPERUSER) return
  if (isAnybody(uid)) throw outsider(port)
  if (users.includes(uid)) return
  const [name, expected] = [userName(uid), userName(users[0] ?? SUPERUSER)]
  throw new ForeignPeer(
    `port ${port} belongs to user ${name}, not to the ${PRODUCT} of ${expected}; nothing was sent`,
    setting === undefined
      ? 'start the host again, at another port where this one is taken: switchyard serve --port 0'
      : `if your host runs as ${name}: ${setting}${uid}`,
  )
}

const redirected = (address: string, port: number): ForeignPeer =>
  new ForeignPeer(
    `nobody can say whose program answers at ${address}:${port}, because the kernel does not list its socket; nothing was sent`,
    'use the port at which the host itself listens, or an https:// address',
  )

const hidden = (address: string, port: number): ForeignPeer =>
  new ForeignPeer(
    `nobody can say whose program answers at ${address}:${port}, because /proc/self/net/tcp cannot be read here; nothing was sent`,
    'mount /proc, or use an https:// address',
  )

/** Every user outside has the same number here, so no user’s name or number would help. */
const outsider = (port: number): ForeignPeer =>
  new ForeignPeer(
    `port ${port} belongs to a user outside of this namespace of users, so nobody can say whether that is your ${PRODUCT}; nothing was sent`,
    'use the namespace of users in which the host runs, or an https:// address',
  )

/** In a namespace with few users one number stands for all others. */
function isAnybody(uid: number): boolean {
  if (uid !== OVERFLOW_UID) return false
  try {
    return !/^\s*0\s+0\s+4294967295\s*$/.test(readFileSync('/proc/self/uid_map', 'latin1'))
  } catch {
    return true
  }
}

// ---- names of users ------------------------------------------------------------------------------------------------

/** The number where the file of users does not name it. */
export const userName = (uid: number): string =>
  passwdEntries().find((entry) => Number(entry[2]) === uid)?.[0] ?? String(uid)

/**
 * By which a worker of another user recognises this process as its host. The number, because containers that share a
 * network have other names for it; nothing for root, whom every client accepts.
 */
export const hostUserMark = (uid = process.getuid?.() ?? SUPERUSER): { readonly hostUser?: string } =>
  uid === SUPERUSER ? {} : { hostUser: String(uid) }

/** A number is taken as it is. Undefined when the file of users lacks the name. */
export function findUser(name: string): number | undefined {
  if (/^\d{1,10}$/.test(name)) return Number(name)
  const uid = passwdEntries().find((entry) => entry[0] === name)?.[2]
  return uid === undefined ? undefined : Number(uid)
}

function passwdEntries(): string[][] {
  try {
    return readFileSync('/etc/passwd', 'utf8')
      .split('\n')
      .map((line) => line.split(':'))
      .filter(({ length }) => length > 2)
  } catch {
    return []
  }
}
