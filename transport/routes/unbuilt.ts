/**
 * Routes that exist in the protocol and do not work yet, all of them, by name.
 *
 * They answer 501 after every other check. A name leaves this list when its handler arrives: with a handler and a
 * place here, or with neither, the handlers' table does not compile.
 */
import type { RouteName } from '../../protocol/routes.ts'

export const unbuilt = [
  'changeCredentials',

  'listTickets',
  'runTicket',
  'listRuns',
  'readRun',
  'readRunEvents',
  'readArtifact',
  'cancelRun',
  'retryRun',
  'followUpRun',
  'readRunPull',
  'resumeRun',
  'releaseRun',
  'discardRun',
  'attachSocket',

  'listWorkers',
  'provisionWorker',
  'mintPairingToken',
  'renameWorker',
  'drainWorker',
  'enableWorker',
  'revokeWorker',
  'readDemand',
  'changeWorkerState',
  'workerSocket',

  'pollCodehost',
  'readStorage',
  'connectStorage',
  'trackerCallback',
  'connectProvider',

  'listCodehostRepos',
  'listPulls',
  'readPull',
  'mergePull',
  'closePull',
  'reopenPull',
  'readyPull',
  'commentPull',
  'reviewPull',
  'replyPull',
  'resolvePullThread',
  'listTrackerProjects',

  'listMemories',
  'forgetMemory',
  'clearMemories',
] as const satisfies readonly RouteName[]
