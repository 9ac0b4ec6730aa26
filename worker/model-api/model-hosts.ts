/**
 * `modelHosts` lists the hosts that an agent's program contacts itself when its credential lies in the sandbox.
 *
 * A credential outside needs none of them: the worker's proxy contacts the vendor. Entries have the form of
 * `sandbox.allowedHosts`.
 */
import type { AgentProvider } from '../../protocol/agents/registry.ts'

const MODEL_HOSTS: Readonly<Record<AgentProvider, readonly string[]>> = {
  agentA: ['api.anthropic.com:443'],
  // A plan's login works at its own address, and renews itself at the third.
  agentB: ['api.openai.com:443', 'chatgpt.com:443', 'auth.openai.com:443'],
  // A login works at the second, and renews itself at the third.
  agentC: [
    'generativelanguage.googleapis.com:443',
    'cloudcode-pa.googleapis.com:443',
    'oauth2.googleapis.com:443',
  ],
}

export function modelHosts(provider: AgentProvider): readonly string[] {
  return MODEL_HOSTS[provider]
}
