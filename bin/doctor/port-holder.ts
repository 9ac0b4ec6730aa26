/** Finds the process that listens on a TCP port, in the tables of a Linux kernel. */
import { readdir, readFile, readlink } from 'node:fs/promises'

const TABLES = ['/proc/net/tcp', '/proc/net/tcp6']
/** The state of a socket that listens. */
const LISTENS = '0A'

/** Undefined elsewhere than on Linux, and for a process of another user, whose files only root may see. */
export async function findPortHolder(port: number): Promise<number | undefined> {
  const sockets = new Set((await Promise.all(TABLES.map((table) => socketsIn(table, port)))).flat())
  if (sockets.size === 0) return undefined
  const pids = (await readdir('/proc').catch(() => [])).filter((name) => /^\d+$/.test(name))
  for (const pid of pids) if (await holdsOneOf(pid, sockets)) return Number(pid)
  return undefined
}

async function socketsIn(table: string, port: number): Promise<readonly string[]> {
  const lines = (await readFile(table, 'utf8').catch(() => '')).split('\n').slice(1)
  return lines.flatMap((line) => {
    const [, local = '', , state, , , , , , inode] = line.trim().split(/\s+/)
    const isOurs = state === LISTENS && Number.parseInt(local.split(':')[1] ?? '', 16) === port
    return isOurs ? [`socket:[${inode}]`] : []
  })
}

async function holdsOneOf(pid: string, sockets: ReadonlySet<string>): Promise<boolean> {
  const folder = `/proc/${pid}/fd`
  const names = await readdir(folder).catch(() => [])
  const links = await Promise.all(names.map((name) => readlink(`${folder}/${name}`).catch(() => '')))
  return links.some((link) => sockets.has(link))
}
