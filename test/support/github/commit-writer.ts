/**
 * Writes commits into a bare repository without a process, with the same hashes as `git fast-import`.
 *
 * The writer knows the files of the commits that it wrote, and reads those of others from loose objects. A commit on top
 * of one that is packed, or that holds links, is left to git. A process costs twenty times as much as the few small files
 * of a commit, and tests seed a thousand of them.
 */
import { createHash } from 'node:crypto'
import { appendFileSync, existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { deflateSync, inflateSync } from 'node:zlib'

export interface WrittenCommit {
  readonly branch: string
  /** Hash; absent: the first commit of a history. */
  readonly parent?: string | undefined
  readonly message: string
  /** `Name <address> seconds +0000`. */
  readonly author: string
  readonly committer: string
  /** Content by path; null deletes the file. */
  readonly files: Readonly<Record<string, string | Buffer | null>>
}

/** By name: a folder, or the hash of a file. */
type Tree = Map<string, Tree | string>

const FILE_MODE = '100644'
const FOLDER_MODE = '40000'
const HASH_BYTES = 20

/** By hash of the commit. */
const knownTrees = new Map<string, Tree>()

/** Returns the hash of the commit, or undefined where the files of its parent are unknown; then nothing is written. */
export function writeCommit(bare: string, commit: WrittenCommit): string | undefined {
  const { parent, message, author, committer, files } = commit
  const before = parent === undefined ? new Map() : (knownTrees.get(parent) ?? readCommit(bare, parent))
  if (before === undefined) return undefined
  const tree = copyOf(before)
  for (const [path, content] of Object.entries(files))
    if (content === null) removeFile(tree, path.split('/'))
    else putFile(tree, path.split('/'), writeObject(bare, 'blob', Buffer.from(content)))
  const lines = [
    `tree ${writeTree(bare, tree)}`,
    ...(parent === undefined ? [] : [`parent ${parent}`]),
    `author ${author}`,
    `committer ${committer}`,
  ]
  const hash = writeObject(bare, 'commit', Buffer.from(`${lines.join('\n')}\n\n${message}`))
  knownTrees.set(hash, tree)
  pointBranch(bare, commit, hash)
  return hash
}

// ---- files of a commit -----------------------------------------------------------------------------------------------

function copyOf(tree: Tree): Tree {
  return new Map([...tree].map(([name, entry]) => [name, typeof entry === 'string' ? entry : copyOf(entry)]))
}

function putFile(tree: Tree, [name = '', ...below]: readonly string[], hash: string): void {
  if (below.length === 0) {
    tree.set(name, hash)
    return
  }
  const present = tree.get(name)
  const folder: Tree = present instanceof Map ? present : new Map()
  tree.set(name, folder)
  putFile(folder, below, hash)
}

function removeFile(tree: Tree, [name = '', ...below]: readonly string[]): void {
  const entry = tree.get(name)
  if (entry instanceof Map) removeFile(entry, below)
  // Git keeps no empty folders.
  if (below.length === 0 || (entry instanceof Map && entry.size === 0)) tree.delete(name)
}

// ---- commits of others -----------------------------------------------------------------------------------------------

function readCommit(bare: string, commit: string): Tree | undefined {
  const [, tree] = /^tree ([0-9a-f]{40})\n/.exec(readObject(bare, commit)?.toString('latin1') ?? '') ?? []
  return tree === undefined ? undefined : readTree(bare, tree)
}

/** Returns undefined where an object is packed, or where an entry is neither a folder nor a plain file. */
function readTree(bare: string, hash: string): Tree | undefined {
  const content = readObject(bare, hash)
  if (content === undefined) return undefined
  const tree: Tree = new Map()
  for (let at = 0; at < content.length; ) {
    const end = content.indexOf(0, at)
    const [mode = '', ...words] = content.toString('utf8', at, end).split(' ')
    at = end + 1 + HASH_BYTES
    const id = content.toString('hex', end + 1, at)
    const entry = mode === FOLDER_MODE ? readTree(bare, id) : mode === FILE_MODE ? id : undefined
    if (entry === undefined) return undefined
    tree.set(words.join(' '), entry)
  }
  return tree
}

function readObject(bare: string, hash: string): Buffer | undefined {
  try {
    const whole = inflateSync(readFileSync(pathOf(bare, hash)))
    return whole.subarray(whole.indexOf(0) + 1)
  } catch {
    return undefined
  }
}

// ---- objects and branches --------------------------------------------------------------------------------------------

function writeTree(bare: string, tree: Tree): string {
  const entries = [...tree].map(([name, entry]) => {
    const isFile = typeof entry === 'string'
    return {
      // Git sorts the name of a folder as if a slash followed it.
      place: Buffer.from(isFile ? name : `${name}/`),
      head: Buffer.from(`${isFile ? FILE_MODE : FOLDER_MODE} ${name}\0`),
      hash: Buffer.from(isFile ? entry : writeTree(bare, entry), 'hex'),
    }
  })
  entries.sort((a, b) => Buffer.compare(a.place, b.place))
  return writeObject(bare, 'tree', Buffer.concat(entries.flatMap(({ head, hash }) => [head, hash])))
}

function writeObject(bare: string, kind: 'blob' | 'tree' | 'commit', content: Buffer): string {
  const whole = Buffer.concat([Buffer.from(`${kind} ${content.length}\0`), content])
  const hash = createHash('sha1').update(whole).digest('hex')
  const path = pathOf(bare, hash)
  if (!existsSync(path)) replaceFile(path, deflateSync(whole, { level: 1 }))
  return hash
}

const pathOf = (bare: string, hash: string): string => join(bare, 'objects', hash.slice(0, 2), hash.slice(2))

function pointBranch(bare: string, { branch, committer, message }: WrittenCommit, hash: string): void {
  const ref = join('refs', 'heads', branch)
  const log = join(bare, 'logs', ref)
  // Git goes on with a log of the branch that exists.
  if (existsSync(log)) {
    const before = readFileSync(join(bare, ref), 'utf8').trim()
    const [subject = ''] = message.split('\n')
    appendFileSync(log, `${before} ${hash} ${committer}\tcommit: ${subject}\n`)
  }
  replaceFile(join(bare, ref), `${hash}\n`)
}

/** A git that reads meanwhile sees the old content or the new. */
function replaceFile(path: string, content: string | Buffer): void {
  mkdirSync(dirname(path), { recursive: true })
  writeFileSync(`${path}.lock`, content)
  renameSync(`${path}.lock`, path)
}
