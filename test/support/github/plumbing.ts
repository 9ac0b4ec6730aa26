/**
 * Runs git in bare repositories.
 *
 * Branches are read directly from loose ref files, because these repositories never pack refs and a list of a thousand
 * pull requests must not start a thousand processes.
 */
import { execFile, spawn } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { writeCommit } from './commit-writer.ts'

const OUTPUT_BYTES_MAX = 256 * 1024 * 1024

const CONFIG = `[core]
\trepositoryformatversion = 0
\tbare = true
[gc]
\tauto = 0
[receive]
\tautogc = false
\tdenyDeleteCurrent = true
\thideRefs = refs/pull
[uploadpack]
\tallowAnySHA1InWant = true
[http]
\treceivepack = true
`

/** Excludes the git configuration of the machine. */
export const GIT_ENVIRONMENT = {
  PATH: process.env.PATH ?? '/usr/bin:/bin',
  HOME: '/nonexistent',
  LC_ALL: 'C.UTF-8',
  GIT_CONFIG_NOSYSTEM: '1',
  GIT_CONFIG_GLOBAL: '/dev/null',
  GIT_TERMINAL_PROMPT: '0',
}

export interface GitProcessResult {
  readonly code: number
  readonly out: string
  readonly error: string
}

export interface Signature {
  readonly name: string
  readonly email: string
  readonly atMs: number
}

export function createBare(path: string, defaultBranch: string): void {
  for (const folder of ['objects/pack', 'objects/info', 'refs/heads', 'refs/tags', 'info'])
    mkdirSync(join(path, folder), { recursive: true })
  writeFileSync(join(path, 'HEAD'), `ref: refs/heads/${defaultBranch}\n`)
  writeFileSync(join(path, 'config'), CONFIG)
}

/** Throws: a failure is a bug of the fake or of its test. */
export async function git(
  path: string,
  args: readonly string[],
  more: GitProcessOptions = {},
): Promise<string> {
  const { code, out, error } = await tryGit(path, args, more)
  if (code !== 0) throw new Error(`git ${args[0]} failed with ${code}: ${error}`)
  return out
}

interface GitProcessOptions {
  readonly env?: Readonly<Record<string, string>>
  readonly input?: string | Buffer
}

export function tryGit(
  path: string,
  args: readonly string[],
  more: GitProcessOptions = {},
): Promise<GitProcessResult> {
  const env = { ...GIT_ENVIRONMENT, ...more.env }
  const options = { cwd: path, env, maxBuffer: OUTPUT_BYTES_MAX, encoding: 'utf8' as const }
  return new Promise((resolve) => {
    const child = execFile('git', ['-c', 'core.quotePath=false', ...args], options, (failure, out, error) =>
      resolve({ code: codeOf(failure), out, error }),
    )
    child.stdin?.on('error', () => {})
    child.stdin?.end(more.input ?? '')
  })
}

function codeOf(failure: { code?: unknown } | null): number {
  if (failure === null) return 0
  return typeof failure.code === 'number' ? failure.code : 255
}

export function branchTip(path: string, branch: string): string | undefined {
  try {
    return readFileSync(join(path, 'refs/heads', branch), 'utf8').trim()
  } catch {
    return undefined
  }
}

/** Needs no lock and no process, because nothing else writes these refs. */
export function pointPullRef(path: string, number: number, sha: string): void {
  const folder = join(path, 'refs/pull', String(number))
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, 'head'), `${sha}\n`)
}

export async function branchesOf(path: string): Promise<{ name: string; sha: string }[]> {
  const lines = await git(path, ['for-each-ref', '--format=%(objectname) %(refname:lstrip=2)', 'refs/heads'])
  return linesOf(lines).map((line) => ({ sha: line.slice(0, 40), name: line.slice(41) }))
}

export async function isAncestor(path: string, older: string, newer: string): Promise<boolean> {
  return (await tryGit(path, ['merge-base', '--is-ancestor', older, newer])).code === 0
}

export async function fullSha(path: string, name: string): Promise<string | undefined> {
  if (/^-/.test(name)) return undefined
  const found = await tryGit(path, ['rev-parse', '--verify', '--quiet', `${name}^{commit}`])
  return found.code === 0 ? found.out.trim() : undefined
}

export function signed(by: Signature): Record<string, string> {
  const date = `${Math.floor(by.atMs / 1000)} +0000`
  return {
    GIT_AUTHOR_NAME: by.name,
    GIT_AUTHOR_EMAIL: by.email,
    GIT_AUTHOR_DATE: date,
    GIT_COMMITTER_NAME: by.name,
    GIT_COMMITTER_EMAIL: by.email,
    GIT_COMMITTER_DATE: date,
  }
}

export interface CommitSpec {
  readonly branch: string
  /** Branch from which a new branch starts. */
  readonly from?: string
  readonly message: string
  readonly by: Signature
  /** Content by path; null deletes the file. */
  readonly files: Readonly<Record<string, string | Buffer | null>>
}

/** More commits at once cost less in a process. */
const COMMITS_WRITTEN_MAX = 20

/** Creates many commits. `from` names an existing branch, or one that an earlier commit of the list creates. */
export async function importCommits(path: string, commits: readonly CommitSpec[]): Promise<void> {
  const isShort = commits.length <= COMMITS_WRITTEN_MAX
  const written = isShort ? commits.findIndex((commit) => !isWritten(path, commit)) : 0
  if (written === -1) return
  const known = new Set<string>()
  const rest = commits.slice(written)
  const stream = Buffer.concat(rest.flatMap((commit) => commitStream(path, commit, known)))
  await feed(path, Buffer.concat([stream, Buffer.from('done\n')]))
}

function isWritten(path: string, { branch, from, message, by, files }: CommitSpec): boolean {
  const parent = branchTip(path, branch) ?? (from === undefined ? undefined : branchTip(path, from))
  const person = signature(by)
  const commit = { branch, parent, message, author: person, committer: person, files }
  return writeCommit(path, commit) !== undefined
}

const signature = ({ name, email, atMs }: Signature): string =>
  `${name} <${email}> ${Math.floor(atMs / 1000)} +0000`

function commitStream(path: string, commit: CommitSpec, known: Set<string>): Buffer[] {
  const parts = [
    text(`commit refs/heads/${commit.branch}\n`),
    text(`committer ${signature(commit.by)}\n`),
    data(commit.message),
    text(parentOf(path, commit, known)),
    ...Object.entries(commit.files).flatMap(([file, content]) => fileStream(file, content)),
    text('\n'),
  ]
  known.add(commit.branch)
  return parts
}

function parentOf(path: string, { branch, from }: CommitSpec, known: ReadonlySet<string>): string {
  if (known.has(branch)) return ''
  if (from !== undefined && known.has(from)) return `from refs/heads/${from}\n`
  const tip = branchTip(path, branch) ?? (from === undefined ? undefined : branchTip(path, from))
  return tip === undefined ? '' : `from ${tip}\n`
}

function fileStream(file: string, content: string | Buffer | null): Buffer[] {
  if (content === null) return [text(`D ${file}\n`)]
  return [text(`M 100644 inline ${file}\n`), data(content)]
}

function data(content: string | Buffer): Buffer {
  const bytes = Buffer.from(content)
  return Buffer.concat([text(`data ${bytes.length}\n`), bytes, text('\n')])
}

function feed(path: string, stream: Buffer): Promise<void> {
  const child = spawn('git', ['fast-import', '--quiet', '--force', '--done'], {
    cwd: path,
    env: GIT_ENVIRONMENT,
    stdio: ['pipe', 'ignore', 'pipe'],
  })
  let error = ''
  child.stderr.on('data', (part) => (error += part))
  child.stdin.on('error', () => {})
  child.stdin.end(stream)
  return new Promise((resolve, reject) => {
    child.on('close', (code) =>
      code === 0 ? resolve() : reject(new Error(`fast-import: ${error.slice(0, 500)}`)),
    )
  })
}

export function linesOf(output: string): string[] {
  return output.split('\n').filter((line) => line !== '')
}

function text(line: string): Buffer {
  return Buffer.from(line)
}
