/** Runs git in tests as Ada, whom no settings of this machine reach, and makes repositories with commits. */
import { execFileSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

const ADA = {
  GIT_CONFIG_GLOBAL: '/dev/null',
  GIT_CONFIG_NOSYSTEM: '1',
  // Repositories that live for a second need no process that looks whether they are to be packed.
  GIT_CONFIG_COUNT: '1',
  GIT_CONFIG_KEY_0: 'maintenance.auto',
  GIT_CONFIG_VALUE_0: 'false',
  GIT_AUTHOR_NAME: 'Ada',
  GIT_AUTHOR_EMAIL: 'ada@example.org',
  GIT_COMMITTER_NAME: 'Ada',
  GIT_COMMITTER_EMAIL: 'ada@example.org',
}

type Files = Readonly<Record<string, string>>

/** Runs git in the folder, with hooks and default settings, and returns what it prints. */
export function git(folder: string, ...args: readonly string[]): string {
  const env = { ...process.env, ...ADA }
  return execFileSync('git', ['-C', folder, ...args], { encoding: 'utf8', env, stdio: 'pipe' }).trim()
}

/** Creates a checkout of `main` with a commit for each subject. */
export function createRepository(folder: string, commits: Readonly<Record<string, Files>>): void {
  mkdirSync(folder, { recursive: true })
  git(folder, 'init', '-q', '-b', 'main')
  for (const [subject, files] of Object.entries(commits)) commitFiles(folder, subject, files)
}

export function commitFiles(folder: string, subject: string, files: Files): void {
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true })
    writeFileSync(join(folder, path), text)
  }
  git(folder, 'add', '--all')
  git(folder, 'commit', '-q', '--allow-empty', '-m', subject)
}
