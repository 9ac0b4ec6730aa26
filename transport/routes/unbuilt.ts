/**
 * Routes that exist in the protocol and do not work yet, all of them, by name.
 *
 * They answer 501 after every other check. A name leaves this list when its handler arrives: with a handler and a
 * place here, or with neither, the handlers' table does not compile.
 */
import type { RouteName } from '../../protocol/routes.ts'

export const unbuilt = [
  'changeCredentials',

  'followUpRun',
  'readRunPull',
  'resumeRun',
  'releaseRun',
  'attachSocket',

  'provisionWorker',

  'pollCodehost',
  'readStorage',
  'connectStorage',
  'trackerCallback',
  'pasteTrackerAddress',
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
] as const satisfies readonly RouteName[]
