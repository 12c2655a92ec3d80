import { type ComponentType, createElement, type ReactNode, useEffect, useState } from 'react'

/**
 * Returns a component whose code is loaded when it is first rendered. Until then it shows a placeholder, and the rest
 * of the page is shown at once. `lazy` in a `Suspense` may delay the whole page by 300 ms.
 */
export function loadedLater<Props extends object>(load: () => Promise<ComponentType<Props>>) {
  let loaded: ComponentType<Props> | undefined
  return function LoadedLater({ placeholder, props }: { placeholder: ReactNode; props: Props }) {
    const [found, setFound] = useState<{ component?: ComponentType<Props>; error?: unknown }>({})
    useEffect(() => {
      if (loaded !== undefined) return
      load().then(
        component => {
          loaded = component
          setFound({ component })
        },
        (error: unknown) => setFound({ error }),
      )
    }, [])
    if (found.error !== undefined) throw found.error // for the error boundary of the page
    const component = loaded ?? found.component
    return component === undefined ? placeholder : createElement(component, props)
  }
}
