/**
 * Finds the programs that this machine needs to execute runs (git, the sandbox, the agents), and the repository of a
 * checkout.
 */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { AGENTS, type AgentProvider } from '../../../protocol/agents/registry.ts'
import type { WorkerAgent } from '../../../protocol/worker.ts'
import { probeAgents } from '../../../worker/agents/locate-agent.ts'
import { createAgentDrivers } from '../../../worker/agents/registry.ts'
import { readGitVersion } from '../../../worker/git/git-version.ts'
import { findSandbox } from '../../../worker/sandbox/registry.ts'
import { homeFolder } from '../../process/data-dir.ts'

export interface FoundTools {
  /** Names with versions: `git 2.39.5`, `agentA (Claude Code 2.1.4, logged in)`. */
  readonly found: readonly string[]
  /** Sentences about what is missing, each with its cure. */
  readonly problems: readonly string[]
  /** The agent that is ready first; undefined when none is installed. */
  readonly agent: AgentProvider | undefined
}

export async function findTools(env: NodeJS.ProcessEnv): Promise<FoundTools> {
  const [git, sandbox, bwrap, agents] = await Promise.all([
    readGitVersion(),
    findSandbox().catch((error: unknown) => ({ ok: false as const, detail: String(error) })),
    readBwrapVersion(),
    probeInstalledAgents(env),
  ])
  const installed = agents.filter(([, { found }]) => found)
  const [ready] = [...installed.filter(([, { loggedIn }]) => loggedIn === true), ...installed]
  return {
    found: [
      ...(git.ok ? [`git ${git.value ?? 'of an unknown version'}`] : []),
      ...(sandbox.ok ? [`bwrap${bwrap === undefined ? '' : ` ${bwrap}`}`] : []),
      ...installed.map(describeAgent),
    ],
    problems: [
      ...(git.ok ? [] : [git.refusal.message]),
      ...(sandbox.ok ? [] : [sandbox.detail]),
      ...(installed.length > 0 ? [] : [agents[0]?.[1].problem ?? 'no agent is installed']),
    ],
    agent: ready?.[0],
  }
}

/** The agents in the order of the registry. */
async function probeInstalledAgents(
  env: NodeJS.ProcessEnv,
): Promise<readonly (readonly [AgentProvider, WorkerAgent])[]> {
  const probed = await probeAgents(
    createAgentDrivers({
      path: env.PATH ?? '',
      home: homeFolder(),
      hasOwnUsers: process.geteuid?.() === 0,
      environment: env,
    }),
  )
  return Object.values(AGENTS).map(({ provider }) => [provider, probed[provider] ?? { found: false }])
}

function describeAgent([provider, { version, loggedIn }]: readonly [AgentProvider, WorkerAgent]): string {
  const product = [AGENTS[provider].productName, version].filter((part) => part !== undefined).join(' ')
  return `${AGENTS[provider].displayName} (${product}, ${loggedIn === true ? 'logged in' : 'not logged in'})`
}

const ANSWER_MS_MAX = 5_000

async function readBwrapVersion(): Promise<string | undefined> {
  try {
    const { stdout } = await promisify(execFile)('bwrap', ['--version'], { timeout: ANSWER_MS_MAX })
    return /\d+(?:\.\d+)+/.exec(stdout)?.[0]
  } catch {
    return undefined
  }
}

// ---- the repository of a checkout ----------------------------------------------------------------------------------

const GIT_MS_MAX = 5_000

/** Returns `owner/name`; undefined outside of a checkout, and for a repository of another code host. */
export async function findOriginRepository(folder: string): Promise<string | undefined> {
  try {
    const { stdout } = await promisify(execFile)('git', ['-C', folder, 'remote', 'get-url', 'origin'], {
      timeout: GIT_MS_MAX,
    })
    return parseGithubAddress(stdout.trim())
  } catch {
    return undefined
  }
}

const HTTP = /^https?:\/\/(?:[^/@]*@)?(?:www\.)?github\.com(?::\d+)?\/(.+)$/i
const SSH = /^(?:ssh:\/\/)?(?:[^/@]+@)?(?:ssh\.)?github\.com(?::\d+\/|[:/])(.+)$/i

/** Reads `owner/name` from an address that git clones. A token in the address is left out. */
export function parseGithubAddress(address: string): string | undefined {
  const path = (HTTP.exec(address) ?? SSH.exec(address))?.[1]?.replace(/\/+$/, '').replace(/\.git$/i, '')
  return path !== undefined && /^\/?[\w.-]+\/[\w.-]+$/.test(path) ? path.replace(/^\//, '') : undefined
}
