/**
 * Puts a wrapper of agentA's real program on the PATH of a separate worker process. The wrapper sets the address and
 * the certificate of the fake model API, and passes all arguments on.
 */
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type Certificate, makeCertificate } from './certificate.ts'
import { MODELS_HOST } from './jobs.ts'

export interface LocalClaude {
  readonly certificate: Certificate
  /** The environment for the worker's process. */
  readonly workerEnv: NodeJS.ProcessEnv
  point(port: number): void
  remove(): void
}

export function locateClaude(): LocalClaude {
  const packages = join(agentsFolder(), 'node_modules')
  // In node_modules, which a sandbox shows as a whole.
  const folder = mkdtempSync(join(packages, '.switchyard-test-'))
  chmodSync(folder, 0o755)
  const program = join(folder, 'bin', 'claude')
  const authority = join(folder, 'authority.pem')
  mkdirSync(join(folder, 'bin'))
  const drafts = mkdtempSync(join(tmpdir(), 'switchyard-certificate-'))
  const certificate = makeCertificate(drafts, MODELS_HOST)
  rmSync(drafts, { recursive: true })
  writeFileSync(authority, certificate.authority)
  return {
    certificate,
    workerEnv: {
      PATH: `${join(folder, 'bin')}:/usr/bin:/bin`,
      NODE_OPTIONS: `--import=${fileURLToPath(new URL('elsewhere.mjs', import.meta.url))}`,
    },
    point: (port) => {
      const lines = [
        '#!/bin/sh',
        `export ANTHROPIC_BASE_URL=https://${MODELS_HOST}:${port} NODE_EXTRA_CA_CERTS=${authority}`,
        `exec ${join(packages, '.bin', 'claude')} "$@"`,
      ]
      writeFileSync(program, `${lines.join('\n')}\n`, { mode: 0o755 })
    },
    remove: () => rmSync(folder, { recursive: true }),
  }
}

function agentsFolder(): string {
  const agents = process.env.SWITCHYARD_REAL_AGENTS
  if (agents === undefined) throw new Error('run these tests with: npm run test:agents')
  return agents
}
