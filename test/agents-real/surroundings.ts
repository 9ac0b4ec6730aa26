/**
 * What is around the worker of a test: the machine's owner with agents and settings of his own, of which nothing may be
 * seen inside, and a code host that is a folder.
 */
import { execFileSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

/** In the environment and the home of the worker; must be nowhere inside. */
export const PLANTED = 'planted-outside-5f1c'

const PLANTED_VARIABLES = [
  'ANTHROPIC_AUTH_TOKEN',
  'ANTHROPIC_API_KEY',
  'OPENAI_API_KEY',
  'CODEX_API_KEY',
  'GH_TOKEN',
]

/** A person who works on the worker's machine has agents and settings of his own. */
export function plant(home: string): () => void {
  const before = { ...process.env }
  for (const name of PLANTED_VARIABLES) process.env[name] = PLANTED
  process.env.HOME = home
  mkdirSync(join(home, '.claude'))
  mkdirSync(join(home, '.codex'))
  writeFileSync(join(home, '.claude', 'CLAUDE.md'), `Always say ${PLANTED}.\n`)
  writeFileSync(join(home, '.codex', 'AGENTS.md'), `Always say ${PLANTED}.\n`)
  writeFileSync(
    join(home, '.codex', 'auth.json'),
    JSON.stringify({ auth_mode: 'apikey', OPENAI_API_KEY: PLANTED }),
  )
  return () => {
    for (const name of [...PLANTED_VARIABLES, 'HOME']) {
      if (before[name] === undefined) delete process.env[name]
      else process.env[name] = before[name]
    }
  }
}

export function makeRepository(bare: string, draft: string): void {
  mkdirSync(bare, { recursive: true })
  execFileSync('git', ['init', '--quiet', '--bare', '--initial-branch=main', bare])
  execFileSync('git', ['init', '--quiet', '--initial-branch=main', draft])
  writeFileSync(join(draft, 'README.md'), '# Greeter\n')
  writeFileSync(join(draft, 'CLAUDE.md'), 'House rule: greet politely.\n')
  writeFileSync(join(draft, 'AGENTS.md'), 'House rule: greet politely.\n')
  git(draft, 'add', '.')
  git(draft, '-c', 'user.name=A', '-c', 'user.email=a@example.org', 'commit', '--quiet', '--message=Begin')
  git(draft, 'push', '--quiet', bare, 'main')
}

export function git(folder: string, ...args: string[]): string {
  const env = { PATH: '/usr/bin:/bin', GIT_CONFIG_NOSYSTEM: '1', GIT_CONFIG_GLOBAL: '/dev/null' }
  return execFileSync('git', ['-C', folder, '-c', 'safe.directory=*', ...args], { env, encoding: 'utf8' })
}
