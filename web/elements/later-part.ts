/** A part of the program that a component draws when it has come; without it the component does the rest. */
import { useSignal } from '@preact/signals'
import type { ComponentType } from 'preact'
import { useEffect } from 'preact/hooks'

/** Undefined until the part is loaded, and for ever when it cannot be. */
export function useLaterPart(load: () => Promise<ComponentType>): ComponentType | undefined {
  const loaded = useSignal<ComponentType | undefined>(undefined)
  useEffect(() => {
    load().then(
      (part) => {
        loaded.value = part
      },
      // The page that shows it at length says that the program cannot be loaded.
      () => {},
    )
  }, [])
  return loaded.value
}
