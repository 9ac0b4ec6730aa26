/**
 * Creates the example's repository: a small program with tests, a short history, and some mistakes to fix.
 *
 * The repository is created once, with real git, as a bare repository. Authors and times are fixed, so the commits are
 * the same on every machine.
 */
import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, rename, rm, stat, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { EXIT, ExitError } from '../../process/exit.ts'

export const REMOTE = 'acme/greeter'
export const BASE = 'main'

export type SampleFiles = Readonly<Record<string, string>>

const FIRST_AT = Date.UTC(2025, 0, 6, 9)
const HOUR_MS = 3_600_000
const GIT_MISSING = new ExitError(
  EXIT.unavailable,
  'git is not on the PATH',
  'sudo apt-get install git, or add the folder of git to PATH',
)
const GIT_MS_MAX = 30_000
const GIT_BYTES_MAX = 4 * 1024 * 1024

const HISTORY: readonly { readonly message: string; readonly files: SampleFiles }[] = [
  {
    message: 'Greet people',
    files: {
      'package.json': `${JSON.stringify({ name: 'greeter', version: '0.1.0', private: true, type: 'module', scripts: { test: 'node --test' } }, undefined, 2)}\n`,
      'README.md': '# greeter\n\nSays hello, politely.\n\n    node --test    # its tests\n',
      'src/greet.js': [
        '/** A greeting for one person. */',
        'export function greet(name) {',
        "  return 'Hello, ' + name.trim() + '!'",
        '}',
        '',
      ].join('\n'),
    },
  },
  {
    message: 'Test the greeting',
    files: {
      'test/greet.test.js': [
        "import assert from 'node:assert/strict'",
        "import { test } from 'node:test'",
        "import { greet } from '../src/greet.js'",
        '',
        "test('a person is greeted by name', () => {",
        "  assert.equal(greet(' Ada '), 'Hello, Ada!')",
        '})',
        '',
      ].join('\n'),
    },
  },
  {
    message: 'Learn some languages',
    files: {
      'src/words/de.js': "export const hello = 'Gutten Tag'\n",
      'src/words/fr.js': "export const hello = 'Bonjuor'\n",
      'src/words/it.js': "export const hello = 'Boungiorno'\n",
      'src/words/nl.js': "export const hello = 'Godendag'\n",
    },
  },
]

/** Creates the repository unless it exists. @param folder the folder of the local code host */
export async function createSampleRepository(folder: string): Promise<void> {
  const bare = bareRepositoryPath(folder)
  if (await isThere(bare)) return
  await mkdir(dirname(bare), { recursive: true, mode: 0o700 })
  const draft = await mkdtemp(join(dirname(bare), '.greeter-'))
  try {
    await makeHistory(join(draft, 'work'))
    await git(draft, ['clone', '--quiet', '--bare', 'work', 'bare'])
    await git(join(draft, 'bare'), ['remote', 'remove', 'origin'])
    await rename(join(draft, 'bare'), bare)
  } finally {
    await rm(draft, { recursive: true, force: true })
  }
}

export const bareRepositoryPath = (folder: string): string => join(folder, `${REMOTE}.git`)

/** The text of a file on the base branch; undefined when the file does not exist. */
export function readBaseFile(folder: string, path: string): Promise<string | undefined> {
  return git(bareRepositoryPath(folder), ['show', `${BASE}:${path}`]).catch(() => undefined)
}

/** The diff between the base branch and another branch. */
export function diffOfBranch(folder: string, branch: string): Promise<string> {
  return git(bareRepositoryPath(folder), [
    'diff',
    '--no-color',
    '--no-ext-diff',
    '--no-textconv',
    `${BASE}...${branch}`,
    '--',
  ])
}

async function makeHistory(folder: string): Promise<void> {
  await mkdir(folder)
  await git(folder, ['init', '--quiet', `--initial-branch=${BASE}`])
  for (const [at, { message, files }] of HISTORY.entries()) {
    for (const [path, text] of Object.entries(files)) {
      await mkdir(dirname(join(folder, path)), { recursive: true })
      await writeFile(join(folder, path), text)
    }
    await git(folder, ['add', '--all'])
    await git(folder, ['commit', '--quiet', '--message', message], FIRST_AT + at * HOUR_MS)
  }
}

/** Runs git without the person's settings, so without their hooks, signing and templates. */
async function git(cwd: string, args: readonly string[], at = FIRST_AT): Promise<string> {
  const date = new Date(at).toISOString()
  const { stdout } = await promisify(execFile)('git', ['-C', cwd, ...args], {
    timeout: GIT_MS_MAX,
    maxBuffer: GIT_BYTES_MAX,
    env: {
      PATH: process.env.PATH,
      GIT_CONFIG_NOSYSTEM: '1',
      GIT_CONFIG_GLOBAL: '/dev/null',
      GIT_TEMPLATE_DIR: '',
      GIT_TERMINAL_PROMPT: '0',
      GIT_AUTHOR_NAME: 'Ada Example',
      GIT_AUTHOR_EMAIL: 'ada@example.org',
      GIT_AUTHOR_DATE: date,
      GIT_COMMITTER_NAME: 'Ada Example',
      GIT_COMMITTER_EMAIL: 'ada@example.org',
      GIT_COMMITTER_DATE: date,
    },
  }).catch((error: unknown) => {
    throw Reflect.get(Object(error), 'code') === 'ENOENT' ? GIT_MISSING : error
  })
  return stdout
}

async function isThere(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    () => false,
  )
}
