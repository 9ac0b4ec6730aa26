/** Pauses dispatching, and resumes it: the act, its button, and the state. */
import type { Act } from '../../elements/acts.ts'
import { Button } from '../../elements/button.tsx'
import { showError } from '../../elements/toasts.ts'
import { host } from '../state/host.ts'
import { config } from '../state/records.ts'

export const isPaused = (): boolean => config.value?.policy.paused === true

const pauseWords = (): string => (isPaused() ? 'Resume dispatching' : 'Pause dispatching')

export const resume = (): Promise<void> => host.resumeDispatch().then(() => {}, showError)

const changePause = (): Promise<void> =>
  isPaused() ? resume() : host.pauseDispatch().then(() => {}, showError)

export const pauseAct = (group: string): Act => ({
  id: 'pause',
  title: pauseWords(),
  group,
  act: changePause,
})

export const PauseButton = () => (
  <Button act={changePause} busyWord={isPaused() ? 'Resuming' : 'Pausing'}>
    {pauseWords()}
  </Button>
)
