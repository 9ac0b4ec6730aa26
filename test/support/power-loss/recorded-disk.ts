/**
 * The files of a recording (`recorder.c`), and what a power loss at some moment may leave of them.
 *
 * Synced data and synced names of a folder are there. Of the rest anything may be missing: changes of a file by pages
 * of 4 KiB, and names of a folder from some change on. A name is no part of its file: only a sync of the folder keeps
 * it. A rename between two folders is one step. Modes and times are not recorded.
 */
import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { compileC } from '../child-process.ts'
import type { Random } from '../random.ts'

const PAGE_BYTES = 4096
const NEWLINE = 0x0a

/** Returns the library that records the process that loads it first. */
export const compileRecorder = (): string =>
  compileC('test/support/power-loss/recorder.c', ['-shared', '-fPIC', '-O1', '-U_FILE_OFFSET_BITS'])

/** An entry of the recording; `recorder.c` describes the kinds. */
export interface Entry {
  readonly kind: string
  readonly inode: number
  readonly a: number
  readonly b: number
  readonly paths: readonly string[]
  readonly data: Buffer
}

export function readRecording(path: string): Entry[] {
  const bytes = readFileSync(path)
  const entries: Entry[] = []
  for (let at = 0; at < bytes.length; ) {
    const end = bytes.indexOf(NEWLINE, at)
    const [kind = '', inode, a, b, textBytes, dataBytes] = bytes.toString('latin1', at, end).split(' ')
    const [text, data] = [end + 1, end + 1 + Number(textBytes)]
    const paths = bytes.toString('utf8', text, data).split('\0').slice(0, -1)
    at = data + Number(dataBytes)
    entries.push({
      kind,
      inode: Number(inode),
      a: Number(a),
      b: Number(b),
      paths,
      data: bytes.subarray(data, at),
    })
  }
  return entries
}

/** A file or folder that was there before the recording, and is on disk. */
export interface FoundFile {
  readonly path: string
  readonly inode: number
  /** Absent: a folder. */
  readonly data?: Buffer
}

export function findFiles(path: string): FoundFile[] {
  const stats = statSync(path)
  const inode = stats.ino
  if (!stats.isDirectory()) return [{ path, inode, data: readFileSync(path) }]
  return [{ path, inode }, ...readdirSync(path).flatMap((name) => findFiles(join(path, name)))]
}

type Change = { readonly at: number; readonly isSynced: boolean } & (
  | { readonly offset: number; readonly data: Buffer }
  | { readonly size: number }
)

interface File {
  readonly is: 'file'
  path: string
  readonly changes: Change[]
  /** Changes before this entry are on disk. */
  syncedTo: number
}

interface Folder {
  readonly is: 'folder'
  path: string
  /** The names as the processes saw them, and as the power loss leaves them. */
  readonly seen: Map<string, Node>
  readonly left: Map<string, Node>
  syncedTo: number
}

type Node = File | Folder

interface NameChange {
  readonly at: number
  readonly folders: readonly Folder[]
  readonly apply: () => void
}

/** The share of the unsynced changes that a power loss takes. */
export type Losing = 'nothing' | 'everything' | 'something'

export interface PowerLoss {
  /** The entry before which the power is lost. */
  readonly at: number
  /** By the path of a file or folder. */
  readonly losing: (path: string) => Losing
  readonly random: Random
  /** A planted fault: whether syncs of that file or folder have no effect. */
  readonly ignoresSync?: (path: string) => boolean
}

/** Replays a recording up to a power loss. */
export class RecordedDisk {
  readonly #loss: PowerLoss
  readonly #root = newFolder('/')
  readonly #inodes = new Map<number, Node>()
  readonly #names: NameChange[] = []
  readonly #syncs = new Map<number, { readonly node: Node; readonly at: number }>()
  /** How many changes of files and names are lost, those of lost files aside. */
  lostChanges = 0

  constructor(found: readonly FoundFile[], entries: readonly Entry[], loss: PowerLoss) {
    this.#loss = loss
    for (const file of found) this.#addFound(file)
    for (let at = 0; at < loss.at; at++) this.#replay(entries[at] as Entry, at)
    const ends = new Map<Folder, number>()
    for (const { at, folders, apply } of this.#names)
      if (folders.some((folder) => at < this.#endOf(folder, ends))) apply()
      else this.lostChanges += 1
  }

  /** Writes what is left at that path; the parent exists. */
  write(path: string, to = path): void {
    const node = this.#find(path, 'left')
    if (node !== undefined) this.#writeNode(to, node)
  }

  #writeNode(path: string, node: Node): void {
    if (node.is === 'file') writeFileSync(path, this.#contentOf(node), { mode: 0o600 })
    else {
      mkdirSync(path, { mode: 0o700 })
      for (const [name, child] of node.left) this.#writeNode(join(path, name), child)
    }
  }

  // ---- replay ------------------------------------------------------------------------------------------------------

  #addFound({ path, inode, data }: FoundFile): void {
    const node = data === undefined ? newFolder(path) : newFile(path)
    if (node.is === 'file') node.changes.push({ at: -1, isSynced: true, offset: 0, data: data as Buffer })
    this.#inodes.set(inode, node)
    this.#setName(-1, path, node)
  }

  #replay(entry: Entry, at: number): void {
    const { kind, inode, a, b, data } = entry
    const [path = '', to = ''] = entry.paths
    const node = this.#inodes.get(inode)
    if (kind === 'o') this.#open(at, path, inode, a === 1)
    if (kind === 'd') this.#setName(at, path, this.#identify(inode, newFolder(path)))
    if (kind === 'r' || kind === 'l')
      this.#setName(at, to, this.#require(path), kind === 'r' ? path : undefined)
    if (kind === 'u') this.#removeName(at, path)
    if (kind === 'w') fileOf(node).changes.push({ at, isSynced: b === 1, offset: a, data })
    if (kind === 't') fileOf(node).changes.push({ at, isSynced: false, size: a })
    if (kind === 's' && node !== undefined) this.#syncs.set(a, { node, at })
    if (kind === 'e') this.#endSync(a)
  }

  #open(at: number, path: string, inode: number, truncates: boolean): void {
    const known = this.#find(path, 'seen')
    if (known === undefined || known !== this.#inodes.get(inode))
      this.#setName(at, path, this.#identify(inode, newFile(path)))
    else if (truncates) fileOf(known).changes.push({ at, isSynced: false, size: 0 })
  }

  #identify<N extends Node>(inode: number, node: N): N {
    this.#inodes.set(inode, node)
    return node
  }

  #endSync(number: number): void {
    const sync = this.#syncs.get(number)
    if (sync === undefined || this.#loss.ignoresSync?.(sync.node.path) === true) return
    sync.node.syncedTo = Math.max(sync.node.syncedTo, sync.at)
  }

  #setName(at: number, path: string, node: Node, from?: string): void {
    const [folder, name] = [this.#folderOf(path), basename(path)]
    const old = from === undefined ? undefined : { folder: this.#folderOf(from), name: basename(from) }
    const change = (names: 'seen' | 'left') => {
      if (old !== undefined && old.folder[names].get(old.name) === node) old.folder[names].delete(old.name)
      folder[names].set(name, node)
    }
    node.path = path
    change('seen')
    const folders = old === undefined || old.folder === folder ? [folder] : [folder, old.folder]
    this.#names.push({ at, folders, apply: () => change('left') })
  }

  #removeName(at: number, path: string): void {
    const [folder, name] = [this.#folderOf(path), basename(path)]
    const node = folder.seen.get(name)
    folder.seen.delete(name)
    const apply = () => void (folder.left.get(name) === node && folder.left.delete(name))
    this.#names.push({ at, folders: [folder], apply })
  }

  /** Folders above those that are recorded count as synced. */
  #folderOf(path: string): Folder {
    let folder = this.#root
    for (const name of dirname(path).split('/').filter(Boolean)) {
      const inside = folder.seen.get(name) ?? newFolder(join(folder.path, name), Number.POSITIVE_INFINITY)
      if (inside.is !== 'folder') throw new Error(`${path} is below a file`)
      if (!folder.seen.has(name)) {
        folder.seen.set(name, inside)
        folder.left.set(name, inside)
      }
      folder = inside
    }
    return folder
  }

  #find(path: string, names: 'seen' | 'left'): Node | undefined {
    let node: Node | undefined = this.#root
    for (const name of path.split('/').filter(Boolean))
      node = node?.is === 'folder' ? node[names].get(name) : undefined
    return node
  }

  #require(path: string): Node {
    const node = this.#find(path, 'seen')
    if (node === undefined) throw new Error(`the recording has no ${path}`)
    return node
  }

  // ---- loss --------------------------------------------------------------------------------------------------------

  /** The entry from which on the changes of a folder's names are lost. */
  #endOf(folder: Folder, ends: Map<Folder, number>): number {
    const known = ends.get(folder)
    if (known !== undefined) return known
    const losing = this.#loss.losing(folder.path)
    const { random, at } = this.#loss
    const some = folder.syncedTo + random.below(Math.max(1, at - folder.syncedTo))
    const end = losing === 'nothing' ? at : losing === 'everything' ? folder.syncedTo : some
    ends.set(folder, Math.max(end, folder.syncedTo))
    return ends.get(folder) ?? 0
  }

  #contentOf(file: File): Buffer {
    const losing = this.#loss.losing(file.path)
    const content = new Content()
    for (const change of file.changes) {
      const isKept = change.isSynced || change.at < file.syncedTo || losing === 'nothing'
      if (isKept) content.apply(change)
      else this.lostChanges += 1
      if (!isKept && losing === 'something') this.#applyPartly(content, change)
    }
    return content.bytes()
  }

  /** Keeps some pages of a write. The length may be there without the bytes, which are zeros then. */
  #applyPartly(content: Content, change: Change): void {
    const { random } = this.#loss
    if ('size' in change) {
      if (random.chance(0.5)) content.apply(change)
      return
    }
    const { offset, data } = change
    for (let from = 0; from < data.length; ) {
      const to = Math.min(data.length, from + PAGE_BYTES - ((offset + from) % PAGE_BYTES))
      const kept = random.pick(['bytes', 'length', 'nothing'] as const)
      if (kept === 'bytes') content.apply({ ...change, offset: offset + from, data: data.subarray(from, to) })
      if (kept === 'length') content.extend(offset + to)
      from = to
    }
  }
}

class Content {
  #bytes = Buffer.alloc(0)
  #size = 0

  apply(change: Change): void {
    if ('size' in change) {
      this.extend(change.size)
      this.#bytes.fill(0, change.size, this.#size)
      this.#size = change.size
      return
    }
    this.extend(change.offset + change.data.length)
    change.data.copy(this.#bytes, change.offset)
  }

  extend(size: number): void {
    if (size > this.#bytes.length) {
      const larger = Buffer.alloc(Math.max(size, 2 * this.#bytes.length))
      this.#bytes.copy(larger)
      this.#bytes = larger
    }
    this.#size = Math.max(this.#size, size)
  }

  bytes(): Buffer {
    return this.#bytes.subarray(0, this.#size)
  }
}

const newFile = (path: string): File => ({ is: 'file', path, changes: [], syncedTo: 0 })
const newFolder = (path: string, syncedTo = 0): Folder => ({
  is: 'folder',
  path,
  seen: new Map(),
  left: new Map(),
  syncedTo,
})

function fileOf(node: Node | undefined): File {
  if (node?.is !== 'file') throw new Error('the recording writes to a file that it did not see being made')
  return node
}
