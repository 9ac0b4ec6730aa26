/** Reads something from the host for a component, again when its key changes, and again on demand. */
import { type Signal, useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { live } from './live.ts'

export interface RequestState<T> {
  /** The newest answer; it stays while a newer one is on its way. */
  readonly data: T | undefined
  readonly error: unknown
  readonly isLoading: boolean
}

export interface Request<T> extends RequestState<T> {
  readonly reload: () => void
}

/**
 * @param key what the answer depends on; an answer to an earlier key is dropped
 * A new connection to the host asks again, because anything may have changed meanwhile.
 */
export function useRequest<T>(key: string, read: (signal: AbortSignal) => Promise<T>): Request<T> {
  const state: Signal<RequestState<T>> = useSignal<RequestState<T>>({
    data: undefined,
    error: undefined,
    isLoading: true,
  })
  const asked = useSignal(0)
  const isLive = live.value.state === 'live'
  useEffect(() => {
    if (!isLive) return undefined
    const controller = new AbortController()
    state.value = { ...state.value, isLoading: true }
    read(controller.signal).then(
      (data) => {
        if (!controller.signal.aborted) state.value = { data, error: undefined, isLoading: false }
      },
      (error: unknown) => {
        if (!controller.signal.aborted) state.value = { ...state.value, error, isLoading: false }
      },
    )
    return () => controller.abort()
  }, [key, asked.value, isLive])
  return {
    ...state.value,
    reload: () => {
      asked.value += 1
    },
  }
}
