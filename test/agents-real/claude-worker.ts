/**
 * The environment of a separate worker process with agentA's real program, whose requests to the vendor reach the fake
 * model API of a test. The program and its sandbox are as in production.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type Certificate, makeCertificate } from './certificate.ts'

export interface LocalClaude {
  readonly certificate: Certificate
  /** The environment for the worker's process. */
  readonly workerEnv: NodeJS.ProcessEnv
  point(port: number): void
  remove(): void
}

const VENDOR = 'api.anthropic.com'

export function locateClaude(): LocalClaude {
  const folder = mkdtempSync(join(tmpdir(), 'switchyard-vendor-'))
  const certificate = makeCertificate(folder, VENDOR)
  const [authority, portFile] = [join(folder, 'authority.pem'), join(folder, 'port')]
  writeFileSync(authority, certificate.authority)
  return {
    certificate,
    workerEnv: {
      PATH: `${join(agentsFolder(), 'node_modules', '.bin')}:/usr/bin:/bin`,
      NODE_OPTIONS: `--import=${fileURLToPath(new URL('redirect-vendor.mjs', import.meta.url))}`,
      NODE_EXTRA_CA_CERTS: authority,
      SWITCHYARD_TEST_VENDOR_PORT: portFile,
    },
    point: (port) => writeFileSync(portFile, String(port)),
    remove: () => rmSync(folder, { recursive: true }),
  }
}

function agentsFolder(): string {
  const agents = process.env.SWITCHYARD_REAL_AGENTS
  if (agents === undefined) throw new Error('run these tests with: npm run test:agents')
  return agents
}
