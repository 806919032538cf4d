"""Process that runs kernels on lavapipe: it reads kernels and arguments from stdin, and writes the arguments to stdout.

The sandbox of the workers is entered right after the Python imports, before the driver is loaded, starts threads,
compiles and runs.
"""

import json
import resource
import sys
from collections.abc import Sequence
from typing import Any, BinaryIO

from autotune.core.host.readable import Readable, readable
from autotune.worker.isolation.sandbox import enter_sandbox

CPU_SECONDS, MEMORY_BYTES = 120, 8 << 30
WAIT_NANOSECONDS = 55_000_000_000
API = (1, 2, 0)
POISON = b"\xff"  # four of these bytes are a NaN


def main(scratch: str, libraries: Sequence[str]) -> None:
    """Run the program that stdin contains.

    Args:
        scratch: Path of the file that the sandbox allows to be written.
        libraries: Files and folders that the driver is loaded from.
    """
    import vulkan

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS + 1))
    enter_sandbox(scratch, readable() | Readable(tuple(libraries)))
    source = sys.stdin.buffer
    header = json.loads(read(source, int.from_bytes(read(source, 8), "little")))
    modules = [(name, grid, read(source, size)) for name, grid, size in header["modules"]]
    sizes: list[int] = header["bytes"]
    arrays = [read(source, size) for size in sizes]
    poisoned = [POISON * header["scratch"]] if header["scratch"] else []
    after = VulkanRun(vulkan).run(modules, header["launches"], [*arrays, *poisoned])
    for written in after[: len(arrays)]:
        sys.stdout.buffer.write(written)


def read(source: BinaryIO, size: int) -> bytes:
    """Read exactly `size` bytes.

    Raises:
        EOFError: The stream ends before.
    """
    data = source.read(size)
    if len(data) != size:
        raise EOFError(f"stdin must hold {size} bytes more, it holds {len(data)}")
    return data


class VulkanRun:
    """The first Vulkan device, with a compute queue.

    Args:
        vulkan: Python module of Vulkan's API.
    """

    def __init__(self, vulkan: Any) -> None:  # noqa: ANN401 - a module that ships no types
        self.vk = vk = vulkan
        about = vk.VkApplicationInfo(pApplicationName="autotune", apiVersion=vk.VK_MAKE_VERSION(*API))
        self.instance = vk.vkCreateInstance(vk.VkInstanceCreateInfo(pApplicationInfo=about), None)
        self.physical = vk.vkEnumeratePhysicalDevices(self.instance)[0]
        families = enumerate(vk.vkGetPhysicalDeviceQueueFamilyProperties(self.physical))
        self.family = next(number for number, each in families if each.queueFlags & vk.VK_QUEUE_COMPUTE_BIT)
        features = vk.VkPhysicalDeviceVulkan12Features(vulkanMemoryModel=1)
        queue = vk.VkDeviceQueueCreateInfo(queueFamilyIndex=self.family, pQueuePriorities=[1.0])
        wide = vk.VkPhysicalDeviceFeatures(shaderInt64=vk.vkGetPhysicalDeviceFeatures(self.physical).shaderInt64)
        device_info = vk.VkDeviceCreateInfo(pNext=features, pQueueCreateInfos=[queue], pEnabledFeatures=wide)
        self.device = vk.vkCreateDevice(self.physical, device_info, None)
        self.queue = vk.vkGetDeviceQueue(self.device, self.family, 0)

    def run(
        self,
        modules: Sequence[tuple[str, Sequence[int], bytes]],
        launches: Sequence[tuple[int, Sequence[Sequence[int]]]],
        arrays: Sequence[bytes],
    ) -> list[bytes]:
        """Dispatch launches in order and return the buffers after them.

        Args:
            modules: Entry point, blocks along x, y and z, and SPIR-V of each kernel.
            launches: Index of the kernel, and buffer index, offset and size of each binding of set 0.
            arrays: Initial contents of the buffers.
        """
        vk = self.vk
        buffers = [self.buffer(data) for data in arrays]
        counts = {kernel: len(bindings) for kernel, bindings in launches}
        pipelines = {n: self.pipeline(data, name, counts[n]) for n, (name, _, data) in enumerate(modules)}
        pool = vk.vkCreateCommandPool(self.device, vk.VkCommandPoolCreateInfo(queueFamilyIndex=self.family), None)
        allocate_info = vk.VkCommandBufferAllocateInfo(commandPool=pool, level=0, commandBufferCount=1)
        commands = vk.vkAllocateCommandBuffers(self.device, allocate_info)[0]
        vk.vkBeginCommandBuffer(commands, vk.VkCommandBufferBeginInfo())
        for kernel, bound in launches:
            pipeline, layout, bindings = pipelines[kernel]
            described = self.describe(bindings, [(buffers[number][0], at, size) for number, at, size in bound])
            point = vk.VK_PIPELINE_BIND_POINT_COMPUTE
            vk.vkCmdBindPipeline(commands, point, pipeline)
            vk.vkCmdBindDescriptorSets(commands, point, layout, 0, 1, [described], 0, None)
            vk.vkCmdDispatch(commands, *modules[kernel][1])
            self.wait(commands)
        vk.vkEndCommandBuffer(commands)
        fence = vk.vkCreateFence(self.device, vk.VkFenceCreateInfo(), None)
        vk.vkQueueSubmit(self.queue, 1, [vk.VkSubmitInfo(pCommandBuffers=[commands])], fence)
        vk.vkWaitForFences(self.device, 1, [fence], 1, WAIT_NANOSECONDS)
        return [bytes(mapped[0 : len(data)]) for (_, mapped), data in zip(buffers, arrays, strict=True)]

    def wait(self, commands: Any) -> None:  # noqa: ANN401
        """Record a memory barrier: later dispatches see the writes of earlier ones."""
        vk, stage = self.vk, self.vk.VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT
        after = vk.VK_ACCESS_SHADER_READ_BIT | vk.VK_ACCESS_SHADER_WRITE_BIT
        barrier = vk.VkMemoryBarrier(srcAccessMask=vk.VK_ACCESS_SHADER_WRITE_BIT, dstAccessMask=after)
        vk.vkCmdPipelineBarrier(commands, stage, stage, 0, 1, [barrier], 0, None, 0, None)

    def buffer(self, data: bytes) -> tuple[Any, Any]:
        """Create a storage buffer with the given contents; return it and its mapped memory."""
        vk = self.vk
        buffer_info = vk.VkBufferCreateInfo(size=len(data), usage=vk.VK_BUFFER_USAGE_STORAGE_BUFFER_BIT)
        buffer = vk.vkCreateBuffer(self.device, buffer_info, None)
        needs = vk.vkGetBufferMemoryRequirements(self.device, buffer)
        kinds = vk.vkGetPhysicalDeviceMemoryProperties(self.physical)
        flags = vk.VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | vk.VK_MEMORY_PROPERTY_HOST_COHERENT_BIT
        memory_type = next(
            number
            for number in range(kinds.memoryTypeCount)
            if needs.memoryTypeBits >> number & 1 and kinds.memoryTypes[number].propertyFlags & flags == flags
        )
        info = vk.VkMemoryAllocateInfo(allocationSize=needs.size, memoryTypeIndex=memory_type)
        memory = vk.vkAllocateMemory(self.device, info, None)
        vk.vkBindBufferMemory(self.device, buffer, memory, 0)
        mapped = vk.vkMapMemory(self.device, memory, 0, len(data), 0)
        mapped[0 : len(data)] = data
        return buffer, mapped

    def pipeline(self, spirv: bytes, name: str, count: int) -> tuple[Any, Any, Any]:
        """Create a compute pipeline; return it, its layout, and the layout of its descriptor set."""
        vk = self.vk
        module = vk.vkCreateShaderModule(
            self.device, vk.VkShaderModuleCreateInfo(codeSize=len(spirv), pCode=spirv), None
        )
        slots = [
            vk.VkDescriptorSetLayoutBinding(
                binding=number,
                descriptorType=vk.VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                descriptorCount=1,
                stageFlags=vk.VK_SHADER_STAGE_COMPUTE_BIT,
            )
            for number in range(count)
        ]
        bindings = vk.vkCreateDescriptorSetLayout(
            self.device, vk.VkDescriptorSetLayoutCreateInfo(pBindings=slots), None
        )
        layout = vk.vkCreatePipelineLayout(self.device, vk.VkPipelineLayoutCreateInfo(pSetLayouts=[bindings]), None)
        stage = vk.VkPipelineShaderStageCreateInfo(stage=vk.VK_SHADER_STAGE_COMPUTE_BIT, module=module, pName=name)
        create_infos = [vk.VkComputePipelineCreateInfo(stage=stage, layout=layout)]
        pipelines = vk.vkCreateComputePipelines(self.device, vk.VK_NULL_HANDLE, 1, create_infos, None)
        return pipelines[0], layout, bindings

    def describe(self, bindings: Any, parts: Sequence[tuple[Any, int, int]]) -> Any:  # noqa: ANN401
        """Create a descriptor set for bindings of a buffer, an offset and a size each."""
        vk, kind, count = self.vk, self.vk.VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, len(parts)
        size = vk.VkDescriptorPoolSize(type=kind, descriptorCount=count)
        pool = vk.vkCreateDescriptorPool(self.device, vk.VkDescriptorPoolCreateInfo(maxSets=1, pPoolSizes=[size]), None)
        allocate_info = vk.VkDescriptorSetAllocateInfo(descriptorPool=pool, pSetLayouts=[bindings])
        described = vk.vkAllocateDescriptorSets(self.device, allocate_info)[0]
        writes = [
            vk.VkWriteDescriptorSet(
                dstSet=described,
                dstBinding=number,
                descriptorCount=1,
                descriptorType=kind,
                pBufferInfo=[vk.VkDescriptorBufferInfo(buffer=buffer, offset=offset, range=size)],
            )
            for number, (buffer, offset, size) in enumerate(parts)
        ]
        vk.vkUpdateDescriptorSets(self.device, count, writes, 0, None)
        return described


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
