/** Reads something from the host for a component, again when its key changes, and again on demand. */
import { type Signal, useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { live } from './live.ts'

export interface Request<T> {
  /** The newest answer; it stays while a newer one is on its way. */
  readonly data: T | undefined
  /** Why there is no answer for the key. */
  readonly error: unknown
  readonly isLoading: boolean
  readonly reload: () => void
}

interface RequestState<T> {
  readonly data?: T
  readonly failure?: { readonly key: string; readonly error: unknown }
  readonly isLoading: boolean
}

/**
 * A new connection to the host asks again, because anything may have changed meanwhile.
 *
 * @param key what the answer depends on; an answer to an earlier key is dropped
 */
export function useRequest<T>(key: string, read: (signal: AbortSignal) => Promise<T>): Request<T> {
  const state: Signal<RequestState<T>> = useSignal<RequestState<T>>({ isLoading: true })
  const asked = useSignal(0)
  const isLive = live.value.state === 'live'
  useEffect(() => {
    if (!isLive) return undefined
    const controller = new AbortController()
    state.value = { ...state.value, isLoading: true }
    read(controller.signal).then(
      (data) => {
        if (!controller.signal.aborted) state.value = { data, isLoading: false }
      },
      (error: unknown) => {
        if (!controller.signal.aborted)
          state.value = { ...state.value, failure: { key, error }, isLoading: false }
      },
    )
    return () => controller.abort()
  }, [key, asked.value, isLive])
  const { data, failure, isLoading } = state.value
  return {
    data,
    error: failure?.key === key ? failure.error : undefined,
    isLoading,
    reload: () => {
      asked.value += 1
    },
  }
}
