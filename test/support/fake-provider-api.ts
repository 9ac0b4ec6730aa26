/** The provider methods of the fake host API: records each call and returns the answer that a test has set. */
import type { HostApi } from '../../actors/api/host-api.ts'
import { no, type Result } from '../../core/result.ts'

export interface ProviderAnswers {
  /** Answers by method; a method without an answer reports that nothing is connected. */
  readonly answers: Map<string, Result<unknown>>
  readonly providerCalls: { readonly name: string; readonly args: readonly unknown[] }[]
}

type ProviderMethod =
  | 'runPull'
  | 'changeCredentials'
  | 'connect'
  | 'pollCodehost'
  | 'trackerCallback'
  | 'pasteTrackerAddress'
  | 'storage'
  | 'connectStorage'
  | 'codehostRepos'
  | 'pulls'
  | 'pull'
  | 'mergePull'
  | 'closePull'
  | 'reopenPull'
  | 'readyPull'
  | 'commentPull'
  | 'reviewPull'
  | 'replyPull'
  | 'resolveThread'
  | 'trackerProjects'
  | 'followUpRun'
  | 'resumeRun'
  | 'releaseRun'
  | 'attachView'

const NOT_CONNECTED = no('invalid', 'nothing is connected')

export function createFakeProviderApi(hostApi: () => ProviderAnswers): Pick<HostApi, ProviderMethod> {
  const asked =
    (name: ProviderMethod) =>
    async (...args: readonly unknown[]) => {
      hostApi().providerCalls.push({ name, args })
      // A test sets an answer of the method's type.
      return (hostApi().answers.get(name) ?? NOT_CONNECTED) as Result<never>
    }
  return {
    runPull: asked('runPull'),
    changeCredentials: asked('changeCredentials'),
    connect: asked('connect'),
    pollCodehost: async () => ({ status: 'pending' }),
    trackerCallback: async (query) => {
      hostApi().providerCalls.push({ name: 'trackerCallback', args: [query] })
      return { status: 400, html: '<!doctype html><title>no</title>' }
    },
    pasteTrackerAddress: asked('pasteTrackerAddress'),
    storage: async () => ({ installed: false, loggedIn: false, bucket: '', publicBaseUrl: '', ready: false }),
    connectStorage: asked('connectStorage'),
    codehostRepos: asked('codehostRepos'),
    pulls: asked('pulls'),
    pull: asked('pull'),
    mergePull: asked('mergePull'),
    closePull: asked('closePull'),
    reopenPull: asked('reopenPull'),
    readyPull: asked('readyPull'),
    commentPull: asked('commentPull'),
    reviewPull: asked('reviewPull'),
    replyPull: asked('replyPull'),
    resolveThread: asked('resolveThread'),
    trackerProjects: asked('trackerProjects'),
    followUpRun: asked('followUpRun'),
    resumeRun: asked('resumeRun'),
    releaseRun: asked('releaseRun'),
    attachView: (_, view) => {
      view.close(1011, 'nothing is connected')
      return { onInput: () => {}, onResize: () => {}, onClosed: () => {} }
    },
  }
}
