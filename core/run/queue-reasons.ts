/**
 * The queue reasons for what no run can change, word for word: the configuration or a machine lacks something.
 *
 * Each begins with its subject, such as `acme/web can't be read`, and ends with the cure. Hosts and workers write the
 * same words, so the host finds out which other runs wait for the same. Agents and providers have their wire names.
 */
import type { AgentProvider } from '../../protocol/agents/registry.ts'

export const remoteSubject = (remote: string): string => `${remote} can't be read`
export const agentSubject = (agent: AgentProvider): string => `no worker has ${agent}`
export const missingCredentialSubject = (provider: string): string => `credential of ${provider} is missing`
export const refusedCredentialSubject = (provider: string): string => `credential of ${provider} is refused`

/** The thing that a subject names; `run`: a single run. */
export type ReasonTopic = 'repository' | 'agent' | 'credential' | 'run'

export function topicOf(subject: string): ReasonTopic {
  if (subject.endsWith(remoteSubject(''))) return 'repository'
  if (subject.startsWith('no worker has ')) return 'agent'
  return subject.startsWith('credential of ') ? 'credential' : 'run'
}

export const withCure = (subject: string, cure: string): string => `${subject}: ${cure}`

/** Whether the reason is about the subject. */
export const isAbout = (reason: string, subject: string): boolean => reason.startsWith(`${subject}: `)
