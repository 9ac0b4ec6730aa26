/**
 * The table names a key of each answer, by which a client tells a host from another program. In a list each element has
 * the key. Every version of a host sends these keys; whatever else an answer holds is not checked, nor is one
 * of a request that is not listed.
 */
import type { AnswerOf, RequestName } from './client.ts'

/** Requests whose answers are texts, bytes or documents of another form. */
type UnmarkedName = 'readOpenApi' | 'readMetrics' | 'readArtifact' | 'trackerCallback'
type RequiredKey<T> = { [K in keyof T]-?: Record<never, never> extends Pick<T, K> ? never : K }[keyof T]
type Mark<T> = T extends readonly (infer E)[] ? readonly [RequiredKey<E>] : RequiredKey<T>

const RUN = 'status'
const FLEET = 'workers'
const DONE = 'ok'

export const ANSWER_MARKS = {
  health: 'ok',
  readStatus: 'health',
  readConfig: 'agent',
  changeSettings: 'config',
  changeCredentials: 'results',
  pauseDispatch: 'paused',
  resumeDispatch: 'paused',
  listTickets: ['identifier'],
  listTicketRuns: ['ticketId'],
  summarizeTickets: 'total',
  createTicket: 'ticket',
  runTicket: RUN,
  listRuns: [RUN],
  summarizeRuns: 'count',
  readRun: RUN,
  readRunEvents: ['index'],
  readPlacement: 'workers',
  readAttention: 'items',
  acknowledgeAttention: 'items',
  explainTicket: 'gates',
  explainRun: 'gates',
  cancelRun: RUN,
  retryRun: RUN,
  publishRun: RUN,
  followUpRun: RUN,
  readRunPull: 'number',
  resumeRun: 'run',
  releaseRun: RUN,
  discardRun: RUN,
  listWorkers: FLEET,
  provisionWorker: 'output',
  mintPairingToken: 'token',
  listJoinKeys: 'joinKeys',
  createJoinKey: 'key',
  deleteJoinKey: DONE,
  renameWorker: FLEET,
  drainWorker: FLEET,
  enableWorker: FLEET,
  revokeWorker: FLEET,
  readDemand: 'queuedRuns',
  changeWorkerState: 'queuedRuns',
  pollCodehost: 'status',
  readStorage: 'ready',
  connectStorage: 'status',
  pasteTrackerAddress: 'status',
  connectProvider: 'status',
  listCodehostRepos: ['fullName'],
  listPulls: 'pulls',
  readPull: 'number',
  mergePull: 'merged',
  closePull: DONE,
  reopenPull: DONE,
  readyPull: DONE,
  commentPull: DONE,
  reviewPull: DONE,
  replyPull: DONE,
  resolvePullThread: DONE,
  readTrackerStatus: 'state',
  listTrackerProjects: ['name'],
  listMemories: 'repos',
  keepMemory: 'repos',
  forgetMemory: 'repos',
  clearMemories: 'repos',
} as const satisfies { readonly [N in Exclude<RequestName, UnmarkedName>]?: Mark<AnswerOf<N>> }

const marks: Readonly<Partial<Record<RequestName, string | readonly [string]>>> = ANSWER_MARKS

export function hasMark(name: RequestName, answer: unknown): boolean {
  const mark = marks[name]
  if (mark === undefined) return true
  if (typeof mark === 'string') return hasKey(answer, mark)
  return Array.isArray(answer) && answer.every((element) => hasKey(element, mark[0]))
}

const hasKey = (value: unknown, key: string): boolean =>
  typeof value === 'object' && value !== null && Object.hasOwn(value, key)
