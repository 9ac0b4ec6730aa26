/**
 * The machine around the worker of a test: an owner with agents and settings, none of which may be visible in a sandbox,
 * and a folder as code host.
 */
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createRepository, git as gitAsAda } from '../support/git.ts'

/** A secret in the environment and the home of the worker; must not appear in any sandbox. */
export const PLANTED = 'planted-outside-5f1c'

const PLANTED_VARIABLES = [
  'ANTHROPIC_AUTH_TOKEN',
  'ANTHROPIC_API_KEY',
  'OPENAI_API_KEY',
  'CODEX_API_KEY',
  'GH_TOKEN',
]

/** Creates the home of a person with agents and settings on the worker's machine. */
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
  createRepository(draft, {
    Begin: {
      'README.md': '# Greeter\n',
      'CLAUDE.md': 'House rule: greet politely.\n',
      'AGENTS.md': 'House rule: greet politely.\n',
    },
  })
  git(draft, 'clone', '--quiet', '--bare', draft, bare)
}

export const git = (folder: string, ...args: readonly string[]): string =>
  gitAsAda(folder, '-c', 'safe.directory=*', ...args)
