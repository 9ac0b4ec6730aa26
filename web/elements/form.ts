/** Handlers that forms and components share. */
import type { Signal } from '@preact/signals'
import { useEffect } from 'preact/hooks'

/** Sends a form by a function instead of the browser. */
export const submitBy = (send: () => unknown) => (event: SubmitEvent) => {
  event.preventDefault()
  void send()
}

/** Leaving the page forgets what a signal holds, such as a secret. */
export const useForgotten = (signal: Signal<unknown>): void =>
  useEffect(
    () => () => {
      signal.value = undefined
    },
    [],
  )
